"""Writes findings as JSON, in the shape that the report's findings have."""

import json
from typing import Any

from nccldoctor import __version__
from nccldoctor.lint.engine import Checked, Outcome


def as_json(outcome: Outcome) -> str:
    """The document: `findings` as in a report (schema 1), with columns and notebook cells added."""
    document = {
        "schema": 1,
        "tool": {"name": "nccldoctor", "version": __version__},
        "findings": [_finding(checked) for checked in outcome.checked],
        "files": outcome.files,
        "hidden": outcome.hidden,
        "not_checked": [
            {"file": p, "because": reason} for p, reason in (*outcome.unreadable, *outcome.faults)
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _finding(checked: Checked) -> dict[str, Any]:
    finding = checked.finding
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "role": finding.role.value,
        "title": finding.title,
        "explanation": finding.explanation,
        "remedy": list(finding.remedy),
        "ranks": [],
        "hosts": [],
        "evidence": [{"file": e.file, "line": e.number, "text": e.text} for e in finding.evidence],
        "consequences": [],
        "column": checked.column,
        "cell": checked.cell,
        "fixable": bool(checked.edits),
    }
