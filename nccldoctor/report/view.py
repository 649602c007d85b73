"""What the page shows, put in order: plain values that the templates print."""

from typing import Any

from nccldoctor.model.report import Report
from nccldoctor.report.json import to_dict
from nccldoctor.report.summary import key_facts

_STATUS_WORDS = {
    "healthy": "Healthy",
    "degraded": "Degraded",
    "failed": "Failed",
    "hung": "Hung",
    "unknown": "Unknown",
}
_SURE = {
    "high": "the text itself says so, or two independent sources agree",
    "medium": "one source says so, and another explanation remains possible",
    "low": "a pattern that often means this",
}


def view(report: Report) -> dict[str, Any]:
    """The names that the templates know."""
    data = to_dict(report)
    return {
        **data,
        "status_word": _STATUS_WORDS[data["verdict"]["status"]],
        "sure": _SURE.get(data["verdict"]["confidence"] or "", ""),
        "key_facts": key_facts(report),
        "not_checked_by_reason": _reasons(data["not_checked"]),
    }


def _reasons(not_checked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by: dict[tuple[str, str], list[str]] = {}
    for entry in not_checked:
        by.setdefault((entry["because"], entry["turn_on"]), []).append(entry["code"])
    return [
        {"because": because, "turn_on": turn_on, "codes": codes}
        for (because, turn_on), codes in sorted(by.items(), key=lambda i: (-len(i[1]), i[0]))
    ]
