"""The findings as the page shows them: consequences folded under their cause, evidence and prose as markup."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from nccldoctor.report.evidence import MOST_LINES, prose, shown_lines

_IN_FULL = 40


def tree(findings: Sequence[dict[str, Any]], said: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The findings that follow from no other, each with those that follow from it under `children`.

    `said` are the steps that stand above already, which the first finding need not repeat.
    """
    entries = _entries(findings)
    if entries and list(said) == entries[0]["remedy"][: len(said)]:
        entries[0]["remedy"] = entries[0]["remedy"][len(said) :]
    tops = []
    for entry in entries:
        parent = next((e for e in entries if e is not entry and _explains(e, entry)), None)
        if entry["role"] == "consequence" and parent is not None:
            parent["children"].append(entry)
        else:
            tops.append(entry)
    return tops


def _entries(findings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: Counter[str] = Counter()
    entries: list[dict[str, Any]] = []
    for finding in findings:
        seen[finding["code"]] += 1
        number = seen[finding["code"]]
        lines = shown_lines(finding, MOST_LINES if len(entries) < _IN_FULL else 2)
        entries.append(
            {
                **finding,
                "id": finding["code"] + (f"-{number}" if number > 1 else ""),
                "prose": prose(finding["explanation"]),
                "lines": lines,
                "more_lines": len(finding["evidence"]) - len(lines),
                "children": [],
            }
        )
    return entries


def _explains(cause: dict[str, Any], entry: dict[str, Any]) -> bool:
    return cause["role"] != "consequence" and entry["code"] in cause["consequences"]
