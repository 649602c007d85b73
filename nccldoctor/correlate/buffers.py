"""What NCCL's buffers take: of GPU memory for each communicator, of /dev/shm and locked memory on each host."""

from collections.abc import Mapping
from typing import Any

from nccldoctor.knowledge import needs
from nccldoctor.knowledge.buffers import BUFFERS, memory, segment
from nccldoctor.model.events.machine import LockedMemoryLimit, SharedMemory
from nccldoctor.model.events.nccl import EnvironmentSet
from nccldoctor.model.job import Job


def buffers(job: Job) -> dict[str, Any]:
    """Sizes that ranks set (default ones are left out), memory of communicators, need and room of hosts.

    All in bytes, at the least; None where nobody told. `locked_limit` -1 stands for no limit.
    """
    sizes, set_by = _set(job)
    return {
        "set": set_by,
        "communicators": [
            {
                "name": comm.name,
                "size": comm.size,
                "channels": comm.channels,
                "gpu_bytes": memory(comm.channels, sizes),
                "gpu_bytes_default": memory(comm.channels, {}),
            }
            for comm in job.communicators
            if comm.channels and comm.size > 1
        ],
        "hosts": [row for host in job.hosts if (row := _host(job, host.name, segment(sizes)))],
    }


def _set(job: Job) -> tuple[Mapping[str, int], list[dict[str, Any]]]:
    """The largest value of each buffer variable, and which ranks set which."""
    said: dict[tuple[str, int], set[int]] = {}
    for event in job.events(EnvironmentSet):
        if event.variable in BUFFERS and event.value.isdigit():
            ranks = said.setdefault((event.variable, int(event.value)), set())
            rank = job.rank_of(event)
            ranks |= set() if rank is None else {rank}
    sizes = {name: max(v for n, v in said if n == name) for name, _ in said}
    rows = [
        {"name": n, "bytes": v, "ranks": sorted(ranks)} for (n, v), ranks in sorted(said.items())
    ]
    return sizes, rows


def _host(job: Job, host: str, per_channel: int) -> dict[str, Any] | None:
    """One host's needs and room; None where there is neither."""
    shm = next((e for e in job.events(SharedMemory) if job.host_of(e) == host), None)
    limits = [e.limit_bytes for e in job.events(LockedMemoryLimit) if job.host_of(e) == host]
    finite = [limit for limit in limits if limit is not None]
    shared = needs.shared(job.connections, host, per_channel)
    locked = needs.locked(job.connections, host, per_channel)
    if not shared and not locked and shm is None and not limits:
        return None
    return {
        "name": host,
        "shared_need": shared,
        "shared_size": shm.size_bytes if shm else None,
        "shared_free": shm.free_bytes if shm else None,
        "locked_need": locked,
        "locked_limit": min(finite) if finite else (-1 if limits else None),
    }
