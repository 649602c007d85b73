"""What the page shows, put in order: plain values and finished pictures that the templates print."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from nccldoctor.knowledge.scopes import PER_HOST
from nccldoctor.model.report import Report
from nccldoctor.report.json import to_dict
from nccldoctor.report.lanes import communicators
from nccldoctor.report.places import common_folder, place
from nccldoctor.report.proof import decisive, proof, reason, unread_said
from nccldoctor.report.standing import by_state, standings
from nccldoctor.report.summary import NAMES, key_facts
from nccldoctor.report.svg.curves import curves
from nccldoctor.report.svg.grid import rank_grid
from nccldoctor.report.svg.hosts import host_map
from nccldoctor.report.svg.matrix import pair_matrix
from nccldoctor.report.svg.timeline import timeline
from nccldoctor.report.svg.topology import topology
from nccldoctor.report.tree import tree
from nccldoctor.report.words import plural

_STATUS = {
    "healthy": ("✓", "Healthy"),
    "degraded": ("!", "Degraded"),
    "failed": ("✕", "Failed"),
    "hung": ("❚❚", "Hung"),
    "unknown": ("?", "Unknown"),
}
_SURE = {
    "high": "the evidence says so itself, or two independent sources agree",
    "medium": "one source says so; another explanation remains possible",
    "low": "a pattern that often means this",
}
_VALUES, _PROOF_CHARACTERS = 6, 220
_JOBS, _UNEVEN, _COMMUNICATORS, _INPUTS, _UNKNOWN, _FINDINGS = 4, 24, 200, 400, 60, 300


def view(report: Report) -> dict[str, Any]:
    """The names that the templates know."""
    data = to_dict(report)
    folder = common_folder(report)
    _shorten(data, folder)
    sign, word = _STATUS[data["verdict"]["status"]]
    shown = data["findings"][:_FINDINGS]
    return {
        "verdict": data["verdict"],
        "sign": sign,
        "status_word": word,
        "sure": _sure(data),
        "key_facts": key_facts(report),
        "reason": reason(top) if (top := decisive(report)) else "",
        "proof": _proof(report, folder),
        "findings": tree(shown, data["verdict"]["next"]),
        "more_findings": len(data["findings"]) - len(shown),
        "severities": Counter(f["severity"] for f in shown),
        "hosts": sorted({h for f in shown for h in f["hosts"]})[:200],
        "jobs": [_job(facts, data, number) for number, facts in enumerate(data["jobs"][:_JOBS])],
        "more_jobs": max(0, len(data["jobs"]) - _JOBS),
        "not_checked": _reasons(data["not_checked"]),
        "coverage": {**data["coverage"], "unknown": data["coverage"]["unknown"][:_UNKNOWN]},
        "inputs": data["inputs"][:_INPUTS],
        "more_inputs": max(0, len(data["inputs"]) - _INPUTS),
        "folder": folder,
        "input_bytes": sum(i["bytes"] for i in data["inputs"]),
        "notes": [*data["notes"], *filter(None, [unread_said(report)])],
    }


def _sure(data: Mapping[str, Any]) -> str:
    """What the confidence rests on."""
    words = _SURE.get(data["verdict"]["confidence"] or "", "")
    top = next((f for f in data["findings"] if f["code"] == data["verdict"]["code"]), None)
    if top is None or not words:
        return words
    files = len({line["file"] for line in top["evidence"]})
    return f"{words} ({plural(len(top['evidence']), 'line')} of {plural(files, 'file')} below)"


def _shorten(data: dict[str, Any], folder: str) -> None:
    """Takes the common folder off every file name."""
    if not folder:
        return
    places = [
        *(line for finding in data["findings"] for line in finding["evidence"]),
        *data["coverage"]["unknown"],
    ]
    for where in places:
        where["file"] = where["file"].removeprefix(folder)
    for source in data["inputs"]:
        source["path"] = source["path"].removeprefix(folder)
    for job in data["jobs"]:
        job["ranks"] = [
            {**r, "files": [f.removeprefix(folder) for f in r["files"]]} for r in job["ranks"]
        ]
        job["bandwidth"] = [{**c, "file": c["file"].removeprefix(folder)} for c in job["bandwidth"]]
        job["timeline"] = [
            {**e, "file": e["file"] and e["file"].removeprefix(folder)} for e in job["timeline"]
        ]


def _proof(report: Report, folder: str) -> list[dict[str, Any]]:
    """The lines that stand beside the verdict."""
    finding = decisive(report)
    if finding is None:
        return []
    return [
        {"place": place(line, folder), "text": " ".join(line.text.split())[:_PROOF_CHARACTERS]}
        for line in proof(finding)
    ]


def _job(facts: Mapping[str, Any], data: Mapping[str, Any], number: int) -> dict[str, Any]:
    standing = standings(facts, _findings_of(facts, data))
    comms = communicators(facts, data["verdict"]["ranks"])
    uneven = [c for c in comms if c["uneven"]]
    even = [c for c in comms if not c["uneven"]]
    return {
        "grid": rank_grid(facts, standing, f"cell{number or ''}"),
        "states": by_state(standing),
        "hosts": facts["hosts"],
        "host_map": host_map(facts, standing),
        "trees": facts["trees"],
        "topologies": [
            {**shape, "picture": drawn}
            for shape in facts["topologies"]
            if (drawn := topology(shape, facts))
        ],
        "uneven": uneven[:_UNEVEN],
        "more_uneven": max(0, len(uneven) - _UNEVEN),
        "even": even[:_COMMUNICATORS],
        "more_even": max(0, len(even) - _COMMUNICATORS),
        "timeline": timeline(facts["timeline"], data["verdict"]["hosts"]),
        "events": facts["timeline"],
        "clocks": facts["clocks"],
        "curves": curves(facts["bandwidth"]),
        "bandwidth": facts["bandwidth"],
        "pairs": pair_matrix(facts["pairs"]),
        "levers": facts["levers"],
        "mix": _mix(facts["mix"]),
        "versions": {NAMES.get(name, name): told for name, told in facts["versions"].items()},
        "networks": facts["networks"],
        "backends": facts["backends"],
        "buffers": facts["buffers"],
        "differing": _differing(facts["environment"]),
        "alike": [v for v in facts["environment"] if not v["differs"]],
    }


def _findings_of(facts: Mapping[str, Any], data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The findings of one job: all where it is the only one, else those with evidence from its ranks' files."""
    findings: list[dict[str, Any]] = data["findings"]
    if len(data["jobs"]) == 1:
        return findings
    files = {file for rank in facts["ranks"] for file in rank["files"]}
    return [f for f in findings if any(line["file"] in files for line in f["evidence"])]


def _differing(environment: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Variables that differ, with their most frequent values; last those that name things of a host or rank."""
    entries = []
    for variable in environment:
        if variable["differs"]:
            values = sorted(variable["values"].items(), key=lambda v: (-len(v[1]), v[0]))
            entries.append(
                {
                    "name": variable["name"],
                    "shown": values[:_VALUES],
                    "more": max(0, len(values) - _VALUES),
                    "missing": variable["missing"],
                    "meant": variable["name"] in PER_HOST,
                }
            )
    return sorted(entries, key=lambda e: (e["meant"], e["more"] > 0, e["name"]))


def _mix(mix: list[dict[str, Any]]) -> list[dict[str, Any]]:
    total = sum(entry["calls"] for entry in mix) or 1
    top = sorted(mix, key=lambda e: (-e["calls"], e["communicator"], e["op"], e["count"] or 0))[:16]
    return [{**entry, "share": entry["calls"] / total} for entry in top]


def _reasons(not_checked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What would switch most on comes first."""
    by: dict[str, list[dict[str, Any]]] = {}
    for entry in not_checked:
        by.setdefault(entry["turn_on"], []).append(entry)
    return [
        {
            "turn_on": turn_on,
            "because": list(dict.fromkeys(e["because"] for e in entries)),
            "codes": [e["code"] for e in entries],
        }
        for turn_on, entries in sorted(by.items(), key=lambda i: (-len(i[1]), i[0]))
    ]
