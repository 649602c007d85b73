"""The lines that stand next to the verdict: what proves it, from two sides where there are two."""

import re

from nccldoctor.model.finding import Finding
from nccldoctor.model.report import Report
from nccldoctor.model.source import Kind, Line, Source
from nccldoctor.report.words import harmless, listed

_SENTENCE = re.compile(r".+?(?:[.!?](?=\s|$)|$)", re.S)
_GLANCE = 240
"""Characters."""


def decisive(report: Report) -> Finding | None:
    """The finding that the verdict speaks of; None where nccldoctor found nothing, or saw it with its own eyes."""
    code = report.verdict.code
    return next((f for f in report.findings if f.code == code), None) if code else None


def proof(finding: Finding) -> tuple[Line, ...]:
    """The first line of evidence, and the first of another file, or at least of another writer."""
    first, *rest = finding.evidence
    others = [line for line in rest if line.file != first.file]
    others += [line for line in rest if line.text.split(" ", 1)[0] != first.text.split(" ", 1)[0]]
    return (first, *others[:1])


def reason(finding: Finding) -> str:
    """The first sentences of what this case explains, as many as are read at a glance.

    Empty where the explanation is of several paragraphs: that is the general description of the diagnosis.
    """
    if "\n\n" in finding.explanation.strip():
        return ""
    told = ""
    for sentence in _SENTENCE.findall(" ".join(finding.explanation.split())):
        if told and len(told) + len(sentence) > _GLANCE:
            break
        told += sentence
    return told.strip()


def unread(report: Report) -> tuple[Source, ...]:
    """Inputs that are not there, closed or damaged."""
    return tuple(s for s in report.inputs if s.kind is Kind.UNREADABLE)


def unread_said(report: Report, most: int = 4) -> str:
    """`Not read: rank3.out (there is no such file)`; empty where everything was read."""
    told = [f"{harmless(s.path)} ({harmless(s.note or s.kind.value)})" for s in unread(report)]
    return f"Not read: {listed(told, most)}" if told else ""
