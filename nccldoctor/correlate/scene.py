"""What the pictures need beyond the tables: links inside hosts, edges of rings and trees, a timeline, bandwidth."""

from collections import Counter
from typing import Any

from nccldoctor.correlate.chronicle import chronicle
from nccldoctor.model.events.nccl import (
    AlgorithmChosen,
    Edge,
    GraphFound,
    InitTimings,
    TopologyLine,
)
from nccldoctor.model.events.state import BandwidthRow, LinkMatrix, RecorderDump
from nccldoctor.model.job import Job


def scene(job: Job) -> dict[str, Any]:
    """`topologies`, `edges`, `timeline`, `bandwidth`, `graph`, `mix`, `algorithms` and `init_seconds` of the job's facts."""
    return {
        "topologies": _topologies(job),
        "edges": _edges(job),
        "timeline": chronicle(job),
        "bandwidth": _bandwidth(job),
        "graph": _graph(job),
        "mix": _mix(job),
        "algorithms": _algorithms(job),
        "init_seconds": max((t.total for t in job.events(InitTimings)), default=None),
    }


def _topologies(job: Job) -> list[dict[str, Any]]:
    """One entry per distinct shape of a host, with the hosts that have it; NCCL's own view before nvidia-smi's."""
    shapes: dict[tuple[Any, ...], list[str]] = {}
    kept: dict[tuple[Any, ...], dict[str, Any]] = {}
    for host, entry in sorted(_dumps(job).items()):
        nodes, links = entry
        shape: tuple[Any, ...] = ("nccl", tuple(nodes), tuple(links))
        shapes.setdefault(shape, []).append(host)
        kept[shape] = {
            "origin": "NCCL",
            "nodes": [{"id": n, "kind": n.partition("/")[0]} for n in nodes],
            "links": [
                {"a": a, "b": b, "kind": kind, "gbytes_per_second": bandwidth}
                for a, b, kind, bandwidth in links
            ],
        }
    for matrix in job.events(LinkMatrix):
        pairs = sorted({(min(a, b), max(a, b), v) for (a, b), v in matrix.links.items() if a != b})
        shape = ("smi", matrix.devices, tuple(pairs))
        host = job.host_of(matrix) or "host not told"
        if host not in shapes.setdefault(shape, []):
            shapes[shape].append(host)
        kept[shape] = {
            "origin": "nvidia-smi",
            "nodes": [{"id": d, "kind": d.rstrip("0123456789")} for d in matrix.devices],
            "links": [{"a": a, "b": b, "kind": v, "gbytes_per_second": None} for a, b, v in pairs],
        }
    return [{"hosts": sorted(hosts), **kept[shape]} for shape, hosts in shapes.items()]


def _dumps(job: Job) -> dict[str, tuple[list[str], list[tuple[str, str, str, float | None]]]]:
    """The largest `=== System ===` dump of each host: nodes in order of depth, links as (a, b, kind, GB/s)."""
    best: dict[str, tuple[list[str], list[tuple[str, str, str, float | None]]]] = {}
    for lines in _runs(job):
        host = job.host_of(lines[0]) or "host not told"
        nodes: list[str] = []
        links: list[tuple[str, str, str, float | None]] = []
        above: list[tuple[int, str]] = []
        for line in lines:
            name = line.node.split(" ")[0]
            if name not in nodes:
                nodes.append(name)
            depth = len(line.indent)
            while above and above[-1][0] >= depth:
                above.pop()
            if line.link is None:
                above = [(-1, name)]
                continue
            if above:
                links.append((above[-1][1], name, line.link, line.bandwidth))
            above.append((depth, name))
        if len(nodes) > len(best.get(host, ([], []))[0]):
            best[host] = (nodes, sorted(set(links), key=links.index))
    return best


def _runs(job: Job) -> list[list[TopologyLine]]:
    """Lines of one dump each: same process, one after the other, from a root to the next dump's root."""
    runs: list[list[TopologyLine]] = []
    last: tuple[str, int] | None = None
    for line in sorted(job.events(TopologyLine), key=lambda e: (e.line.file, e.line.number)):
        here = (line.line.file, line.line.number)
        if last is None or here[0] != last[0] or here[1] > last[1] + 8:
            runs.append([])
        runs[-1].append(line)
        last = here
    return runs


def _edges(job: Job) -> list[dict[str, Any]]:
    """Connections between ranks of the process's widest communicator, one entry per pair and transport."""
    channels: dict[tuple[int, int, str, str], set[int]] = {}
    for edge in job.events(Edge):
        if edge.direction == "receive" and edge.transport == "NET":
            continue
        key = (edge.source, edge.target, edge.transport, edge.detail)
        channels.setdefault(key, set()).add(edge.channel)
    return [
        {"from": a, "to": b, "transport": transport, "detail": detail, "channels": len(numbers)}
        for (a, b, transport, detail), numbers in sorted(channels.items())
    ]


def _bandwidth(job: Job) -> list[dict[str, Any]]:
    """Curves: points are (size in bytes, bus GB/s), one per measured row."""
    curves: dict[tuple[str, str, int, str], list[list[float]]] = {}
    for row in job.events(BandwidthRow):
        key = (row.op, row.origin, row.ranks or 0, row.line.file)
        curves.setdefault(key, []).append([row.size_bytes, row.bus_gbytes_per_second])
    return [
        {"op": op, "origin": origin, "ranks": ranks or None, "file": file, "points": sorted(points)}
        for (op, origin, ranks, file), points in sorted(curves.items())
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
    """How often which call was made, per communicator, where single calls are in the evidence."""
    counts: dict[str, Counter[tuple[str, int | None, str | None]]] = {}
    for dump in job.events(RecorderDump):
        for entry in dump.entries:
            call = (entry.call.op, entry.call.count, entry.call.datatype)
            counts.setdefault(entry.group, Counter())[call] += 1
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
