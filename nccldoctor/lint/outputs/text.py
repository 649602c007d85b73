"""Writes findings for people: place, code, sentence, the line itself, and what to write instead."""

from collections.abc import Iterator

from nccldoctor.lint.engine import Checked, Outcome
from nccldoctor.model.finding import Confidence, Finding


def text(outcome: Outcome) -> Iterator[str]:
    """The lines of the answer, the summary last."""
    for checked in outcome.checked:
        yield from _entry(checked)
    for path, reason in (*outcome.unreadable, *outcome.faults):
        yield f"{path}: not checked: {reason}"
    yield summary(outcome)


def one_line(finding: Finding) -> str:
    """A finding on one line, for places with little room."""
    line = finding.evidence[0]
    return f"{line.file}:{line.number}: {finding.code} {finding.title}"


def summary(outcome: Outcome) -> str:
    """One sentence: how much was found in how much, and what is hidden."""
    found = len(outcome.checked)
    said = f"{_count(found, 'finding')} in {_count(outcome.files, 'file')}"
    if outcome.hidden:
        said += (
            f"; {_count(outcome.hidden, 'less sure one')} not shown (--confidence low shows all)"
        )
    mendable = sum(bool(c.edits) for c in outcome.checked)
    if mendable:
        said += f"; --fix mends {mendable}"
    return said


def _entry(checked: Checked) -> Iterator[str]:
    finding = checked.finding
    line = finding.evidence[0]
    sure = (
        "" if finding.confidence is Confidence.HIGH else f", {finding.confidence.value} confidence"
    )
    yield (
        f"{line.file}:{line.number}:{checked.column}: {finding.code} {finding.name}"
        f" ({finding.severity.value}{sure})"
    )
    yield f"  {finding.title}"
    for shown in finding.evidence[:4]:
        yield f"  {shown.number:>5} | {shown.text.rstrip()}"
    for step in finding.remedy:
        yield f"      -> {step}"
    yield ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
