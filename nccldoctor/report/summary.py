"""The key facts of a report in a few words: versions, size, network, duration."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from nccldoctor.model.digest import Coverage
from nccldoctor.model.report import Report
from nccldoctor.report.words import listed, plural

NAMES = {"nccl": "NCCL", "rccl": "RCCL", "torch": "PyTorch", "cuda": "CUDA", "driver": "driver"}


def key_facts(report: Report) -> list[tuple[str, str]]:
    """(name, value) pairs, only of what is known."""
    told: list[tuple[str, str]] = []
    for facts in report.facts[:1]:
        told += [("job", _size(facts))] if facts.get("ranks") else []
        for name, versions in facts.get("versions", {}).items():
            told.append((NAMES.get(name, name), listed(list(versions))))
        if facts.get("networks"):
            told.append(("network", listed(list(facts["networks"]))))
        if lasted := duration(facts.get("timeline", ())):
            told.append(("time in the logs", lasted))
    if len(report.facts) > 1:
        told.insert(0, ("jobs in the input", str(len(report.facts))))
    return told


def understood(coverage: Coverage) -> str:
    """`understood all of 766 NCCL messages`; empty where there is none."""
    if not coverage.records:
        return ""
    share = "all" if coverage.ratio == 1 else f"{int(coverage.ratio * 1000) / 10} %"
    return f"understood {share} of {plural(coverage.records, 'NCCL message')}"


def _size(facts: Mapping[str, Any]) -> str:
    told = [rank for rank in facts["ranks"] if rank["rank"] is not None]
    ranks = len(told or facts["ranks"])
    hosts = len(facts.get("hosts", ()))
    return plural(ranks, "rank") + (f" on {plural(hosts, 'host')}" if hosts else "")


def duration(timeline: Any) -> str | None:
    """From the first to the last event with a time, or None."""
    if len(timeline) < 2:
        return None
    first, last = (datetime.fromisoformat(timeline[i]["time"]) for i in (0, -1))
    seconds = int((last - first).total_seconds())
    if seconds < 1:
        return None
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return " ".join(
        f"{number} {unit}"
        for number, unit in ((hours, "h"), (minutes, "min"), (seconds, "s"))
        if number
    )
