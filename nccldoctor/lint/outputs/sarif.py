"""Writes findings as SARIF 2.1.0, for GitHub code scanning and editors."""

import json
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from nccldoctor import __version__
from nccldoctor.lint.engine import Checked, Outcome
from nccldoctor.lint.rule import Rule
from nccldoctor.lint.rules import rules
from nccldoctor.model.finding import Confidence

_PRECISION = {Confidence.HIGH: "very-high", Confidence.MEDIUM: "medium", Confidence.LOW: "low"}


def as_sarif(outcome: Outcome) -> str:
    """One run with all rules, and a result for each finding; `error`, `warning` and `note` are SARIF's own levels."""
    codes = [rule.code for rule in rules()]
    run = {
        "tool": {
            "driver": {
                "name": "nccldoctor",
                "version": __version__,
                "rules": [_rule(rule) for rule in rules()],
            }
        },
        "columnKind": "utf16CodeUnits",
        "results": [_result(checked, codes) for checked in outcome.checked],
        "invocations": [
            {"executionSuccessful": True, "toolExecutionNotifications": _notes(outcome)}
        ],
    }
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.documentation.strip()},
        "help": {"text": "\n".join(rule.remedy)},
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {"precision": _PRECISION[rule.confidence], "tags": ["distributed", "nccl"]},
    }


def _result(checked: Checked, codes: list[str]) -> dict[str, Any]:
    finding = checked.finding
    first, *others = finding.evidence
    region = {
        "startLine": first.number,
        "startColumn": checked.column,
        "snippet": {"text": first.text},
    }
    return {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": finding.severity.value,
        "message": {"text": f"{finding.title}. Instead: {finding.remedy[0]}"},
        "locations": [_location(first.file, region)],
        "relatedLocations": [
            _location(line.file, {"startLine": line.number, "snippet": {"text": line.text}})
            for line in others
        ],
        "properties": {"confidence": finding.confidence.value},
    }


def _location(file: str, region: dict[str, Any]) -> dict[str, Any]:
    path, _, cell = file.partition("#")
    return {
        "physicalLocation": {"artifactLocation": {"uri": _uri(path)}, "region": region},
        **({"logicalLocations": [{"name": cell, "kind": "cell"}]} if cell else {}),
    }


def _uri(path: str) -> str:
    prefix = "file://" if PurePath(path).is_absolute() else ""
    return prefix + quote(path)


def _notes(outcome: Outcome) -> list[dict[str, Any]]:
    return [
        {
            "level": "warning",
            "message": {"text": f"not checked: {reason}"},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(path)}}}],
        }
        for path, reason in (*outcome.unreadable, *outcome.faults)
    ]
