"""What the pictures need beyond the tables: links inside hosts, edges of rings and trees, a timeline, bandwidth."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from nccldoctor.correlate.chronicle import chronicle
from nccldoctor.correlate.clocks import Clocks
from nccldoctor.model.events.nccl import (
    AlgorithmChosen,
    GraphFound,
    InitTimings,
)
from nccldoctor.model.events.recorded import shapes
from nccldoctor.model.events.state import BandwidthRow, ProbeLever, RecorderDump
from nccldoctor.model.job import Job, Origin
from nccldoctor.model.topology import HostTopology, Link

Expected = Callable[[Job, BandwidthRow], float | None]
"""What a measured row should reach in bus GB/s, None where nobody can tell."""

_MOST_ROWS = 2000


def scene(job: Job, expected: Expected | None = None) -> dict[str, Any]:
    """`topologies`, `edges`, `trees`, `timeline`, `bandwidth`, `pairs`, `levers`, `graph`, `mix`, `algorithms` and `init_seconds` of the job's facts."""
    clocks = Clocks(job)
    return {
        "topologies": _topologies(job),
        "edges": _edges(job),
        "trees": _trees(job),
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


def _topologies(job: Job) -> list[dict[str, Any]]:
    """One entry per distinct shape of a host; `ranks` of a node are those of the hosts, in their order."""
    shapes: dict[tuple[Any, ...], list[HostTopology]] = {}
    for host in job.topology:
        links = host.links if host.origin == "NCCL" else _near(host)
        nodes = tuple(
            (d.id, d.kind) for d in host.devices if host.origin == "NCCL" or d.kind != "NVS"
        )
        shapes.setdefault((host.origin, nodes, links), []).append(host)
    return [
        {
            "hosts": [h.host for h in hosts],
            "origin": origin,
            "nodes": [
                {
                    "id": ident,
                    "kind": kind,
                    "ranks": [d.rank for h in hosts for d in h.devices if d.id == ident],
                }
                for ident, kind in nodes
            ],
            "links": [
                {
                    "a": link.a,
                    "b": link.b,
                    "kind": link.kind,
                    "gbytes_per_second": link.gbytes_per_second,
                    "count": link.count,
                }
                for link in links
            ],
        }
        for (origin, nodes, links), hosts in shapes.items()
    ]


def _near(host: HostTopology) -> tuple[Link, ...]:
    """Paths between GPUs, and from GPUs to the network cards beside them, where a source gives only paths."""
    kinds = {d.id: d.kind for d in host.devices}
    found: dict[tuple[str, str], Link] = {}
    for (a, b), path in sorted(host.paths.items()):
        gpus = [kinds.get(a), kinds.get(b)].count("GPU")
        near = gpus == 1 and path.kind in ("PIX", "PXB")
        if (gpus == 2 or near) and (b, a) not in found:
            found[a, b] = Link(a, b, path.kind, path.gbytes_per_second, path.count)
    return tuple(found.values())


def _edges(job: Job) -> list[dict[str, Any]]:
    """Connections between ranks, one entry per pair and transport; global ranks where they are known.

    `ring` is false where the rings are known and none goes this way: a connection of trees, or of single sends.
    """
    around = {
        (ring.communicator, a, b)
        for ring in job.rings
        for a, b in zip(ring.ranks, ring.ranks[1:] + ring.ranks[:1], strict=True)
    }
    told = {ring.communicator for ring in job.rings}
    channels: dict[tuple[int, int, str, str], int] = {}
    ringed: dict[tuple[int, int, str, str], bool] = {}
    for c in job.connections:
        if c.direction == "receive" and c.transport == "NET":
            continue
        a, b = (_world(job, c.communicator, r) for r in (c.source, c.target))
        key = (a, b, c.transport, c.detail)
        channels[key] = max(channels.get(key, 0), c.channels)
        here = c.communicator not in told or (c.communicator, c.source, c.target) in around
        ringed[key] = ringed.get(key, False) or here
    return [
        {
            "from": a,
            "to": b,
            "transport": transport,
            "detail": detail,
            "channels": number,
            "ring": ringed[a, b, transport, detail],
        }
        for (a, b, transport, detail), number in sorted(channels.items())
    ]


def _trees(job: Job) -> list[dict[str, Any]]:
    """Parents and children in NCCL's trees, over all communicators; global ranks where they are known."""
    channels: dict[tuple[int, int], int] = {}
    for edge in job.trees:
        key = (
            _world(job, edge.communicator, edge.parent),
            _world(job, edge.communicator, edge.child),
        )
        channels[key] = max(channels.get(key, 0), edge.channels)
    return [
        {"parent": parent, "child": child, "channels": number}
        for (parent, child), number in sorted(channels.items())
    ]


def _world(job: Job, communicator: str | None, rank: int) -> int:
    known = job.global_rank(communicator or "", rank)
    return rank if known is None else known


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
