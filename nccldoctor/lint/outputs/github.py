"""Writes findings as workflow commands, which GitHub Actions shows beside the lines of a pull request."""

from collections.abc import Iterator

from nccldoctor.lint.engine import Checked, Outcome
from nccldoctor.model.finding import Severity

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def annotations(outcome: Outcome) -> Iterator[str]:
    """One `::error file=…` line for each finding."""
    for checked in outcome.checked:
        yield _annotation(checked)


def _annotation(checked: Checked) -> str:
    finding = checked.finding
    line = finding.evidence[0]
    place = (
        f"file={_property(line.file.partition('#')[0])},line={line.number},col={checked.column},"
        f"title={_property(f'{finding.code} {finding.name}')}"
    )
    message = "\n".join([finding.title, *(f"-> {step}" for step in finding.remedy)])
    return f"::{_COMMANDS[finding.severity]} {place}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
