"""The lines that stand next to the verdict: what proves it, from two sides where there are two."""

from nccldoctor.model.finding import Finding
from nccldoctor.model.report import Report
from nccldoctor.model.source import Kind, Line, Source


def decisive(report: Report) -> Finding | None:
    """The finding that the verdict speaks of; None where nccldoctor found nothing, or saw it with its own eyes."""
    code = report.verdict.code
    return next((f for f in report.findings if f.code == code), None) if code else None


def proof(finding: Finding) -> tuple[Line, ...]:
    """The first line of evidence, and the first of another file."""
    first, *rest = finding.evidence
    other = next((line for line in rest if line.file != first.file), None)
    return (first,) if other is None else (first, other)


def unread(report: Report) -> tuple[Source, ...]:
    """Inputs that are not there, closed or damaged."""
    return tuple(s for s in report.inputs if s.kind is Kind.UNREADABLE)
