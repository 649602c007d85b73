"""Reads measured bandwidth: tables of nccl-tests and rccl-tests, also with log lines glued in, and the probe's rows."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from nccldoctor.model.digest import Coverage, Digest
from nccldoctor.model.event import Event
from nccldoctor.model.events.gpus import GpuState
from nccldoctor.model.events.measured import BandwidthRow, ProbeFailure, ProbeLever, ProbeRank
from nccldoctor.model.ranks import ranges
from nccldoctor.model.source import NOBODY, Line, Source, Speaker

OPS = {
    "all_gather": "AllGather",
    "all_reduce": "AllReduce",
    "alltoall": "AlltoAll",
    "alltoallv": "AlltoAllv",
    "broadcast": "Broadcast",
    "gather": "Gather",
    "hypercube": "Hypercube",
    "reduce": "Reduce",
    "reduce_scatter": "ReduceScatter",
    "scatter": "Scatter",
    "sendrecv": "SendRecv",
}
"""Names of the test programs (without `_perf`) to NCCL's words."""

_TEST = re.compile(r"\b(" + "|".join(sorted(OPS, key=len, reverse=True)) + r")_perf\b")
_DEVICE = re.compile(
    r"^#\s+Rank\s+(\d{1,9})\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+(\S{1,256}) device\s+(\d{1,9}) \[(\S+)\] (.{1,100}?)\s*$"
)
_HEAD = re.compile(
    r"^\s*(\d{1,18})\s+(\d{1,18})\s+(int8|uint8|int32|uint32|int64|uint64|half|float|double|bfloat16|f8e4m3|f8e5m2)\s+"
    r"(?:(sum|prod|max|min|avg|mulsum|none)\s+)?(?:(-?\d{1,9}) )?"
)
_REAL = r"\d{1,15}(?:\.\d{0,15})?(?:e[+-]?\d{1,2})?"
_NUMBERS = re.compile(rf"(?<!\S)({_REAL})\s+({_REAL})\s+({_REAL})\s+({_REAL}|N/A)(?=\s|$)")
_REST = re.compile(rf"^\s*{_REAL}\s+{_REAL}\s+{_REAL}\s")


class Table:
    """One stream's table, fed line by line; a row whose numbers come lines later is put together again."""

    def __init__(self) -> None:
        self.op: str | None = None
        self.open = False
        self._ranks: set[int] = set()
        self._hosts: set[str] = set()
        self._waiting: tuple[int, Line] | None = None

    def feed(self, text: str, line: Line) -> Iterable[Event]:
        """The events that this line completes: at most one of each kind."""
        if text.startswith("#"):
            yield from self._comment(text, line)
            return
        if not self.open:
            return
        text = text.partition(" NCCL ")[0]
        head = _HEAD.match(text)
        if head is not None:
            self._waiting = (int(head[1]), line)
            yield from self._numbers(text[head.end() :], line)
        elif self._waiting is not None and _REST.match(text):
            yield from self._numbers(text, line)

    def _comment(self, text: str, line: Line) -> Iterable[Event]:
        if test := _TEST.search(text):
            self.op, self._ranks, self._hosts = OPS[test[1]], set(), set()
        elif "busbw" in text or "out-of-place" in text:
            self.open = True
        elif device := _DEVICE.match(text):
            rank, host, index, bus_id, name = device.groups()
            self._ranks.add(int(rank))
            self._hosts.add(host)
            yield GpuState(
                line=line,
                speaker=Speaker(host=host),
                index=int(index),
                name=name,
                bus_id=_bus(bus_id),
            )
        elif "Avg bus bandwidth" in text or "Collective test concluded" in text:
            self.open = False

    def _numbers(self, text: str, line: Line) -> Iterable[Event]:
        """Out-of-place first, then in-place; the better of the two times counts, the wrong elements of both."""
        found = [m.groups() for m in _NUMBERS.finditer(text)]
        if not found or self._waiting is None:
            return
        size, first = self._waiting
        self._waiting = None
        time_us, algorithm, bus, _ = found[0]
        wrong = [int(float(w)) for *_, w in found if w != "N/A"]
        yield BandwidthRow(
            line=line
            if line == first
            else replace(line, text=f"{first.text} … {line.text}"[:2000]),
            speaker=NOBODY,
            op=self.op or "Collective",
            size_bytes=size,
            time_us=float(time_us),
            algorithm_gbytes_per_second=float(algorithm),
            bus_gbytes_per_second=float(bus),
            ranks=len(self._ranks) or None,
            wrong=sum(wrong) if wrong else None,
            members=tuple(sorted(self._ranks)),
            hosts=tuple(sorted(self._hosts)),
        )


def read(source: Source, data: bytes) -> Digest:
    """The rows and devices of one table."""
    table, events = Table(), []
    number = 0
    for number, raw in enumerate(data.splitlines(), 1):
        text = raw[: 1 << 16].decode("utf-8", "replace")
        events += list(table.feed(text, Line(source.path, number, text[:2000])))
    return Digest(replace(source, lines=number), tuple(events), (), Coverage(lines=number))


def probe(source: Source, body: Mapping[str, Any], section: Any) -> Iterable[Event]:
    """The events of a snapshot's `probe` section; `body` is the whole snapshot."""
    host_of = {int(rank["rank"]): str(rank["host"]) for rank in section.get("ranks", ())}
    alone = _alone(section)
    for rank in section.get("ranks", ()):
        yield _probe_rank(source, rank, alone)
    for row in section.get("rows", ()):
        yield _row(source, row, host_of)
    for lever in section.get("levers", ()):
        for row in lever.get("rows", ()):
            named = {**row, "group": "lever", "variant": str(lever["name"])}
            yield _row(source, named, host_of)
        yield _lever(source, lever)
    for failure in section.get("failures", ()):
        yield _failure(source, failure)


def _lever(source: Source, lever: Mapping[str, Any]) -> ProbeLever:
    name, state = str(lever["name"])[:200], str(lever["state"])[:40]
    rows = lever.get("rows", ())
    best = max((float(row["bus_gbytes_per_second"]) for row in rows), default=0.0)
    least = min(rows, key=lambda row: int(row["size_bytes"]), default=None)
    variables = {str(k): str(v)[:200] for k, v in sorted(lever.get("environment", {}).items())}
    given = " ".join(f"{k}={v}" for k, v in variables.items())
    text = f"{name} {given}: {state} {lever.get('text', '')}".rstrip()
    return ProbeLever(
        line=_line(source, f"{text}, {best:.1f} GB/s" if best else text),
        speaker=NOBODY,
        name=name,
        state=state,
        variables=variables,
        layer=str(lever.get("layer", ""))[:200],
        bus_gbytes_per_second=best,
        smallest_us=float(least["time_us"]) if least else None,
    )


def _alone(section: Mapping[str, Any]) -> dict[int, bool]:
    """Which ranks passed their test alone, and which did not."""
    passed = {
        int(row["members"][0]): not row.get("wrong")
        for row in section.get("rows", ())
        if row.get("group") == "single"
    }
    for failure in section.get("failures", ()):
        if str(failure["step"]).startswith("single "):
            passed.update(dict.fromkeys(map(int, failure["ranks"]), False))
    return passed


def _probe_rank(source: Source, rank: Mapping[str, Any], alone: Mapping[int, bool]) -> ProbeRank:
    number, host = int(rank["rank"]), str(rank["host"])
    device, bus_id = str(rank.get("device", "?")), rank.get("bus_id")
    return ProbeRank(
        line=_line(source, f"rank {number} on {host}: {device} {bus_id or ''}".rstrip()),
        speaker=Speaker(host=host, pid=int(rank["pid"]), rank=number),
        rank=number,
        host=host,
        device=device,
        bus_id=str(bus_id) if bus_id else None,
        passed=alone.get(number),
    )


def _row(source: Source, row: Mapping[str, Any], host_of: Mapping[int, str]) -> BandwidthRow:
    members = tuple(int(rank) for rank in row["members"])
    group, variant = str(row.get("group", "world")), str(row.get("variant", ""))
    datatype = str(row.get("datatype", "float32"))
    bus, time_us = float(row["bus_gbytes_per_second"]), float(row["time_us"])
    extra = [x for x in (variant, group if group != "world" else "") if x]
    wrong = int(row.get("wrong", 0))
    who = f"rank{'s' * (len(members) != 1)} {ranges(members)}"
    speed = f", {bus:.2f} GB/s" if bus else ""
    text = (
        f"{row['op']} {row['size_bytes']} B {' '.join([datatype, *extra])} {who}: "
        f"{time_us:.1f} us{speed}, {wrong} wrong"
    )
    return BandwidthRow(
        line=_line(source, text),
        speaker=NOBODY,
        op=str(row["op"]),
        size_bytes=int(row["size_bytes"]),
        time_us=time_us,
        algorithm_gbytes_per_second=float(row["algorithm_gbytes_per_second"]),
        bus_gbytes_per_second=bus,
        ranks=len(members),
        wrong=wrong,
        origin=" ".join(["probe", *extra, *([datatype] if datatype != "float32" else [])]),
        datatype=datatype,
        group=group,
        variant=variant,
        p95_us=float(row["p95_us"]) if row.get("p95_us") is not None else None,
        members=members,
        hosts=tuple(sorted({host_of[rank] for rank in members if rank in host_of})),
        wrong_by_rank={int(r): int(n) for r, n in row.get("wrong_by_rank", {}).items()},
        rank_us={int(r): float(t) for r, t in row.get("rank_us", {}).items()},
    )


def _failure(source: Source, failure: Mapping[str, Any]) -> ProbeFailure:
    step, kind = str(failure["step"])[:200], str(failure["kind"])
    return ProbeFailure(
        line=_line(source, f"{step}: {kind}: {failure.get('text', '')}"),
        speaker=NOBODY,
        step=step,
        kind=kind,
        ranks=tuple(int(rank) for rank in failure.get("ranks", ())),
        missing=tuple(int(rank) for rank in failure.get("missing", ())),
        text=str(failure.get("text", ""))[:2000],
    )


def _bus(text: str) -> str:
    """`0000:00:06` and `0x06` as nccl-tests prints them, with the function that it leaves out."""
    return (
        f"{text}.0"
        if re.fullmatch(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}", text)
        else text
    )


def _line(source: Source, text: str) -> Line:
    return Line(source.path, 0, text[:2000])
