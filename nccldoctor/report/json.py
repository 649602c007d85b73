"""Report → JSON of schema 1: the contract for machines, described by `schema.json` beside this file."""

import json
from collections.abc import Mapping
from typing import Any

from nccldoctor import __version__
from nccldoctor.model.finding import Finding
from nccldoctor.model.report import Report
from nccldoctor.model.source import Line
from nccldoctor.report.words import encodable

SCHEMA = 1


def dumps(report: Report) -> str:
    """The JSON text; the same report gives the same bytes."""
    return encodable(json.dumps(to_dict(report), ensure_ascii=False, indent=1)) + "\n"


def to_dict(report: Report) -> dict[str, Any]:
    """The report as plain dicts and lists in the order of the schema."""
    verdict = report.verdict
    return {
        "schema": SCHEMA,
        "tool": {"name": "nccldoctor", "version": __version__},
        "verdict": {
            "status": verdict.status.value,
            "code": verdict.code,
            "headline": verdict.headline,
            "confidence": verdict.confidence.value if verdict.confidence else None,
            "ranks": list(verdict.ranks),
            "hosts": list(verdict.hosts),
            "next": list(verdict.next),
        },
        "jobs": [dict(facts) for facts in report.facts],
        "findings": [finding_dict(f) for f in report.findings],
        "not_checked": [
            {"code": n.code, "because": n.because, "turn_on": n.turn_on} for n in report.not_checked
        ],
        "coverage": _coverage(report),
        "inputs": [
            {
                "path": s.path,
                "kind": s.kind.value,
                "bytes": s.size_bytes,
                "lines": s.lines,
                "note": s.note,
            }
            for s in report.inputs
        ],
        "notes": list(report.notes),
    }


def finding_dict(finding: Finding) -> dict[str, Any]:
    """One finding; `lint` uses the same shape."""
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "role": finding.role.value,
        "title": finding.title,
        "explanation": finding.explanation,
        "remedy": list(finding.remedy),
        "ranks": list(finding.ranks),
        "hosts": list(finding.hosts),
        "evidence": [_line(line) for line in finding.evidence],
        "consequences": list(finding.consequences),
    }


def _line(line: Line) -> Mapping[str, Any]:
    return {"file": line.file, "line": line.number, "text": line.text}


def _coverage(report: Report) -> Mapping[str, Any]:
    coverage = report.coverage
    return {
        "lines": coverage.lines,
        "nccl_records": coverage.records,
        "understood": coverage.understood,
        "ratio": round(coverage.ratio, 6),
        "unknown": [
            {
                "text": u.first.text,
                "count": u.count,
                "file": u.first.file,
                "line": u.first.number,
            }
            for u in coverage.unknown
        ],
    }
