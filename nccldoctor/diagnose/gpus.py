"""Where ranks sit: the GPU of a process in its host's graph, and the ranks of a host's GPUs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from nccldoctor.model.job import Job
from nccldoctor.model.topology import Connection, Device, HostTopology


def topology_of(job: Job, host: str | None) -> HostTopology | None:
    """The graph of this host."""
    return next((t for t in job.topology if t.host == host), None)


def gpu_of(job: Job, process: int | None) -> tuple[HostTopology, Device] | None:
    """The GPU of a process, in its host's graph; None where either is unknown."""
    if process is None or process in _with_several_gpus(job):
        return None
    one = job.processes[process]
    topology = topology_of(job, one.host)
    gpu = topology.gpu_of(bus_id=one.bus_id, index=one.device) if topology else None
    return (topology, gpu) if topology is not None and gpu is not None else None


@lru_cache(maxsize=1)
def _with_several_gpus(job: Job) -> frozenset[int]:
    """Processes that hold several ranks of a communicator (ncclCommInitAll): their connections tell no one GPU."""
    return frozenset(
        process
        for comm in job.communicators
        for process, seats in Counter(m.process for m in comm.members).items()
        if process is not None and seats > 1
    )


@lru_cache(maxsize=1)
def _direct(job: Job) -> frozenset[tuple[str | None, int, int]]:
    return frozenset(
        (c.communicator, c.source, c.target)
        for c in job.connections
        if c.transport in ("P2P", "SHM") and c.inside_host
    )


def over_net_inside(job: Job, connection: Connection) -> bool:
    """Do two processes of one host use the network for each other?

    NCCL takes one way for a pair of ranks: where the pair also has P2P or shared memory, the line on the network was
    meant for another communicator of the same process.
    """
    pair = (connection.communicator, connection.source, connection.target)
    return (
        connection.transport == "NET"
        and connection.inside_host
        and connection.source_process != connection.target_process
        and pair not in _direct(job)
    )


def nvlinked(job: Job, connection: Connection) -> bool:
    """Are both ends GPUs of one host that NVLink joins?"""
    source = gpu_of(job, connection.source_process)
    target = gpu_of(job, connection.target_process)
    if source is None or target is None or source[0].host != target[0].host:
        return False
    return source[1].id != target[1].id and source[0].nvlinked(source[1].id, target[1].id)


def ranks_at(job: Job, connections: Iterable[Connection]) -> tuple[int, ...]:
    """The global ranks at the ends of these connections, sorted."""
    ends = {p for c in connections for p in (c.source_process, c.target_process) if p is not None}
    return tuple(sorted({r for p in ends if (r := job.processes[p].rank) is not None}))


def ranks_on(devices: Iterable[Device]) -> tuple[int, ...]:
    """The global ranks on these GPUs, sorted."""
    return tuple(sorted({d.rank for d in devices if d.rank is not None}))


def named(devices: Sequence[Device]) -> str:
    """`GPU 1b000 (rank 0), GPU1`: GPUs as their source writes them."""
    parts = []
    for device in devices:
        name = f"GPU {device.bus_id}" if device.bus_id else device.id
        parts.append(f"{name} (rank {device.rank})" if device.rank is not None else name)
    return ", ".join(parts)
