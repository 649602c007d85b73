"""Lays the connections and rings of each communicator over the hosts' graphs."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nccldoctor.correlate.seats import Seats, seated
from nccldoctor.model.events.nccl import CommComplete, CommStart, Edge, RingOrder
from nccldoctor.model.job import Job, Process
from nccldoctor.model.topology import Connection, HostTopology, Path, Ring

_NET = re.compile(r"^(?P<network>.+?)/(?P<nic>\d+)(?:\((?P<proxy>\d+)\))?(?P<rest>.*)$")


def lay(
    job: Job, topologies: Iterable[HostTopology]
) -> tuple[tuple[Connection, ...], tuple[Ring, ...]]:
    """All connections, one entry a pair and way, and all rings, in the order of the lines."""
    by_host = {t.host: t for t in topologies}
    nvml = {
        process.id: start.nvml_device
        for start in [*job.events(CommStart), *job.events(CommComplete)]
        if (process := job.process_of(start)) is not None
    }
    found: dict[tuple[object, ...], Connection] = {}
    channels: dict[tuple[object, ...], set[int]] = {}
    rings: dict[tuple[str | None, int], Ring] = {}
    for event, process, mine in seated(job, Edge, RingOrder):
        if isinstance(event, RingOrder):
            ring = _ring(mine, event)
            rings.setdefault((ring.communicator, ring.channel), ring)
        elif isinstance(event, Edge):
            key, connection = _connection(job, mine, event, process, nvml)
            found.setdefault(key, connection)
            channels.setdefault(key, set()).add(event.channel)
    laid = [replace(c, channels=len(channels[key])) for key, c in found.items()]
    return tuple(_over(job, by_host, c) for c in laid), tuple(rings.values())


def _ring(seats: Seats, event: RingOrder) -> Ring:
    ranks = tuple(map(int, event.ranks.split()))
    fitting = [c.id for c, m in seats if m.rank == ranks[0] and c.size == len(ranks)]
    return Ring(fitting[-1] if fitting else None, event.channel, ranks, event.line)


def _connection(
    job: Job, seats: Seats, edge: Edge, process: Process | None, nvml: Mapping[int, int | None]
) -> tuple[tuple[object, ...], Connection]:
    comm, members = _of_edge(job, seats, edge, nvml)
    network = _NET.match(edge.detail) if edge.transport == "NET" else None
    source, target = (job.processes[m] if m is not None else None for m in members)
    connection = Connection(
        communicator=comm,
        source=edge.source,
        target=edge.target,
        transport=edge.transport,
        detail=edge.detail,
        channels=1,
        line=edge.line,
        writer=process.id if process else None,
        source_process=members[0],
        target_process=members[1],
        source_host=source.host if source else None,
        target_host=target.host if target else None,
        direction=edge.direction,
        network=network["network"] if network else None,
        nic=int(network["nic"]) if network else None,
        gdr="GDRDMA" in edge.detail if edge.transport == "NET" else None,
        proxy=int(network["proxy"]) if network and network["proxy"] else None,
    )
    key = (comm, edge.source, edge.target, edge.transport, edge.detail, edge.direction)
    return (*key, None if comm else connection.writer), connection


def _of_edge(
    job: Job, seats: Seats, edge: Edge, nvml: Mapping[int, int | None]
) -> tuple[str | None, tuple[int | None, int | None]]:
    """The communicator that an edge belongs to: one of its writer's that has both ranks, and the writer in one.

    Connections are made at the first use, long after several communicators were built. The numbers in brackets must
    agree with both ends; of those left, the latest whose hosts fit the transport, else the latest.
    """
    fitting = []
    for comm, member in reversed(seats):
        if max(edge.source, edge.target) >= comm.size or member.rank not in (
            edge.source,
            edge.target,
        ):
            continue
        ends = [comm.member(rank).process for rank in (edge.source, edge.target)]
        shown = (edge.source_device, edge.target_device)
        if all(
            end is None or _is_device(job.processes[end], nvml.get(end), text)
            for end, text in zip(ends, shown, strict=True)
        ):
            fitting.append((comm.id, (ends[0], ends[1])))
    for ident, (source, target) in fitting:
        if _same_host(job, source, target) in (None, edge.transport != "NET"):
            return ident, (source, target)
    return fitting[0] if fitting else (None, (None, None))


def _same_host(job: Job, source: int | None, target: int | None) -> bool | None:
    if source is None or target is None:
        return None
    return job.processes[source].host == job.processes[target].host


def _is_device(process: Process, nvml: int | None, text: str) -> bool:
    """Is this the process's bus id (2.7-2.18.1, RCCL) or NVML index (2.18.3 and later)? True where neither is known."""
    known = {str(n) for n in (nvml,) if n is not None}
    if process.bus_id is not None and (known or len(text) > 3):
        known.add(process.bus_id.lower())
    return not text or not known or text.lower() in known


def _over(job: Job, by_host: Mapping[str, HostTopology], connection: Connection) -> Connection:
    """The connection with the path between its GPUs, where both are on a host whose graph is known."""
    if not connection.inside_host or connection.source_process == connection.target_process:
        return connection
    topology = by_host.get(connection.source_host or "")
    ends = [
        topology.gpu_of(bus_id=p.bus_id, index=p.device)
        for number in (connection.source_process, connection.target_process)
        if topology is not None and number is not None and (p := job.processes[number])
    ]
    if topology is None or len(ends) != 2 or ends[0] is None or ends[1] is None:
        return connection
    path: Path | None = topology.path(ends[0].id, ends[1].id)
    return replace(connection, path=path)
