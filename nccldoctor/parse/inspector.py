"""Reads NCCL Inspector's JSON lines: one measured row for each communicator, operation and size."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nccldoctor.model.digest import Digest
from nccldoctor.model.events.measured import BandwidthRow
from nccldoctor.model.source import Line, Source, Speaker

MOST_TIMES = 4096
MOST_GROUPS = 20_000
"""Measurements kept of one group, and groups kept of one file."""

_KINDS = (("coll_perf", "coll", "coll"), ("p2p_perf", "p2p", "p2p"))

Group = tuple[str, str, int]
"""Communicator's hash, operation and size in bytes."""


@dataclass(slots=True)
class _Measured:
    """The rows of one group: (time in µs, algorithm GB/s, bus GB/s), and where the first one stands."""

    line: Line
    speaker: Speaker
    ranks: int | None
    rows: list[tuple[float, float, float]] = field(default_factory=list)


def read(source: Source, data: bytes) -> Digest:
    """The digest of an Inspector file; a line that a killed process cut is counted in the note."""
    groups: dict[Group, _Measured] = {}
    torn = lines = 0
    for number, raw in enumerate(data.splitlines(), 1):
        lines = number
        if not raw.strip():
            continue
        try:
            _take(groups, source, number, json.loads(raw))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            torn += 1
    note = f"{torn} torn lines" if torn else ""
    return Digest(replace(source, lines=lines, note=note), tuple(_rows(groups)))


def _take(groups: dict[Group, _Measured], source: Source, number: int, entry: Any) -> None:
    header = entry["header"]
    for key, name, prefix in _KINDS:
        measured = entry.get(key)
        if measured is None:
            continue
        group = (str(header["id"]), str(measured[name]), int(measured[f"{prefix}_msg_size_bytes"]))
        known = groups.get(group)
        if known is None:
            if len(groups) >= MOST_GROUPS:
                return
            known = groups[group] = _Measured(
                Line(source.path, number, json.dumps(entry, sort_keys=True)[:2000]),
                _speaker(entry.get("metadata") or {}),
                int(header["n_ranks"]) if "n_ranks" in header else None,
            )
        if len(known.rows) < MOST_TIMES:
            known.rows.append(
                (
                    float(measured[f"{prefix}_exec_time_us"]),
                    float(measured[f"{prefix}_algobw_gbs"]),
                    float(measured[f"{prefix}_busbw_gbs"]),
                )
            )


def _speaker(metadata: Mapping[str, Any]) -> Speaker:
    host, pid = metadata.get("hostname"), metadata.get("pid")
    return Speaker(
        host=host if isinstance(host, str) else None, pid=pid if isinstance(pid, int) else None
    )


def _rows(groups: Mapping[Group, _Measured]) -> Iterator[BandwidthRow]:
    """The median of each group, in the order of the file."""
    by_line: dict[int, list[tuple[Group, _Measured]]] = defaultdict(list)
    for group, measured in groups.items():
        by_line[measured.line.number].append((group, measured))
    for number in sorted(by_line):
        for (_, op, size), measured in by_line[number]:
            if not measured.rows:
                continue
            time, algorithm, bus = sorted(measured.rows)[len(measured.rows) // 2]
            yield BandwidthRow(
                line=measured.line,
                speaker=measured.speaker,
                op=op,
                size_bytes=size,
                time_us=time,
                algorithm_gbytes_per_second=algorithm,
                bus_gbytes_per_second=bus,
                ranks=measured.ranks,
                origin="inspector",
            )
