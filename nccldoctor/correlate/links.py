"""What is drawn as lines: the links inside each kind of host, and the rings and trees laid over the ranks."""

from typing import Any

from nccldoctor.model.job import Job
from nccldoctor.model.topology import HostTopology, Link


def topologies(job: Job) -> list[dict[str, Any]]:
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


def edges(job: Job) -> list[dict[str, Any]]:
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


def trees(job: Job) -> list[dict[str, Any]]:
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
