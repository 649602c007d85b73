"""What the pictures need beyond the tables: links inside hosts, edges of rings and trees, a timeline, bandwidth."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from nccldoctor.correlate import links
from nccldoctor.correlate.chronicle import chronicle
from nccldoctor.correlate.clocks import Clocks
from nccldoctor.model.events.measured import BandwidthRow, ProbeLever
from nccldoctor.model.events.nccl import (
    AlgorithmChosen,
    GraphFound,
    InitTimings,
)
from nccldoctor.model.events.recorder import RecorderDump
from nccldoctor.model.events.recorder_log import shapes
from nccldoctor.model.job import Job, Origin

Expected = Callable[[Job, BandwidthRow], float | None]
"""What a measured row should reach in bus GB/s, None where nobody can tell."""

_MOST_ROWS = 2000


def scene(job: Job, expected: Expected | None = None) -> dict[str, Any]:
    """`topologies`, `edges`, `trees`, `timeline`, `bandwidth`, `pairs`, `levers`, `graph`, `mix`, `algorithms` and `init_seconds` of the job's facts."""
    clocks = Clocks(job)
    return {
        "topologies": links.topologies(job),
        "edges": links.edges(job),
        "trees": links.trees(job),
        "timeline": chronicle(job, clocks),
        "clocks": dict(clocks.ahead),
        "bandwidth": _bandwidth(job, expected),
        "pairs": _pairs(job),
        "levers": _levers(job),
        "graph": _graph(job),
        "mix": _mix(job),
        "algorithms": _algorithms(job),
        "init_seconds": max((t.total for t in job.events(InitTimings)), default=None),
    }


def _bandwidth(job: Job, expected: Expected | None) -> list[dict[str, Any]]:
    """Curves of all ranks, halves and hosts: points are (size in bytes, bus GB/s, GB/s expected or None)."""
    curves: dict[tuple[str, str, str, str, int, str], list[list[float | None]]] = {}
    rows = [r for r in job.events(BandwidthRow) if r.group not in ("pair", "single", "lever")]
    for row in rows[:_MOST_ROWS]:
        key = (row.op, row.origin, row.group, row.variant, row.ranks or 0, row.line.file)
        usual = expected and not row.variant and row.datatype in (None, "float32")
        due = expected(job, row) if expected and usual else None
        point = [float(row.size_bytes), row.bus_gbytes_per_second, due and round(due, 1)]
        curves.setdefault(key, []).append(point)
    return [
        {
            "op": op,
            "origin": origin,
            "group": group,
            "variant": variant,
            "ranks": ranks or None,
            "file": file,
            "points": sorted(points, key=lambda p: (p[0] or 0, p[1] or 0)),
        }
        for (op, origin, group, variant, ranks, file), points in sorted(
            curves.items(), key=lambda item: (item[0][2] != "world", item[0][3] != "", item[0])
        )
    ]


def _pairs(job: Job) -> list[dict[str, Any]]:
    """What pairs of ranks reach between them in the probe, at the largest size."""
    best: dict[tuple[int, ...], BandwidthRow] = {}
    for row in job.events(BandwidthRow):
        if row.group == "pair" and row.op == "SendRecv" and len(row.members) == 2:
            known = best.get(row.members)
            if known is None or row.size_bytes >= known.size_bytes:
                best[row.members] = row
    return [
        {"a": a, "b": b, "gbytes_per_second": row.bus_gbytes_per_second}
        for (a, b), row in sorted(best.items())
    ]


def _levers(job: Job) -> list[dict[str, Any]]:
    """What each setting of NCCL did to the probe, the plain run first; `part` is its share of the plain bandwidth."""
    levers = job.events(ProbeLever)
    plain = next((v.bus_gbytes_per_second for v in levers if not v.variables), 0.0)
    return [
        {
            "name": lever.name,
            "variables": dict(lever.variables),
            "state": lever.state,
            "smallest_us": lever.smallest_us,
            "gbytes_per_second": (best := lever.bus_gbytes_per_second) or None,
            "part": round(best / plain, 4) if plain and best else None,
        }
        for lever in levers
    ]


def _graph(job: Job) -> dict[str, Any] | None:
    """The best graph that NCCL found, GB/s in all channels together: what it expects of the links at most.

    Graphs of a single GPU (type LOC) tell nothing of links.
    """
    graphs = [g for g in job.events(GraphFound) if g.intra_type != "LOC"]
    if not graphs:
        return None
    best = max(graphs, key=lambda g: g.channels * g.intra_bandwidth)
    return {
        "channels": best.channels,
        "gbytes_per_second": round(best.channels * best.intra_bandwidth, 1),
        "intra_type": best.intra_type,
        "inter_type": best.inter_type,
    }


def _mix(job: Job) -> list[dict[str, Any]]:
    """How often which call was made, as the flight recorders tell, else the logs."""
    counts: dict[str, Counter[tuple[str, int | None, str | None]]] = {}
    for dump in job.events(RecorderDump):
        for entry, number in shapes(dump.entries):
            call = (entry.call.op, entry.call.count, entry.call.datatype)
            counts.setdefault(f"group {entry.group}", Counter())[call] += number
    if not counts:
        for lane in job.lanes:
            if lane.origin is Origin.CALLS:
                own = counts.setdefault(job.communicator(lane.communicator).name, Counter())
                for logged, number in lane.mix.items():
                    own[logged.op, logged.count, logged.datatype] += number
    return [
        {
            "communicator": group,
            "op": op,
            "count": count,
            "datatype": datatype,
            "calls": number,
        }
        for group, counter in sorted(counts.items())
        for (op, count, datatype), number in sorted(
            counter.items(), key=lambda item: (-item[1], str(item[0]))
        )
    ]


def _algorithms(job: Job) -> list[dict[str, Any]]:
    """Which algorithm and protocol NCCL chose for which sizes of an operation, in bytes."""
    sizes: dict[tuple[str, str, str], set[int]] = {}
    for choice in job.events(AlgorithmChosen):
        key = (choice.op, choice.algorithm, choice.protocol)
        sizes.setdefault(key, set()).add(choice.size_bytes)
    return [
        {
            "op": op,
            "algorithm": algorithm,
            "protocol": protocol,
            "smallest": min(seen),
            "largest": max(seen),
        }
        for (op, algorithm, protocol), seen in sorted(sizes.items())
    ]
