"""What NCCL's connections need of a host's memory, against what nccldoctor saved of that host."""

from collections.abc import Iterable, Sequence

from nccldoctor.diagnose.networks import is_rdma
from nccldoctor.diagnose.settings import named, number
from nccldoctor.knowledge.buffers import BUFFERS, segment
from nccldoctor.model.events.state import LockedMemoryLimit, SharedMemory
from nccldoctor.model.job import Job


def one_segment(job: Job) -> int:
    """Bytes of one connection of one channel, at the sizes that the job sets."""
    sizes = {s.variable: value for s in named(job, *BUFFERS) if (value := number(s))}
    return segment(sizes)


def shared_need(job: Job, host: str) -> int:
    """Bytes of /dev/shm that the shared-memory connections of this host take, as far as the logs show them."""
    channels = (
        c.channels
        for c in job.connections
        if c.transport == "SHM" and host in (c.source_host, c.target_host)
    )
    return sum(channels) * one_segment(job)


def locked_need(job: Job, host: str) -> int:
    """Bytes that the busiest process of this host locks for RDMA without GPUDirect, as far as the logs show it."""
    per_process: dict[int, int] = {}
    for c in job.connections:
        if c.transport != "NET" or not is_rdma(c.network) or c.gdr:
            continue
        for process, where in (
            (c.source_process, c.source_host),
            (c.target_process, c.target_host),
        ):
            if process is not None and where == host:
                per_process[process] = per_process.get(process, 0) + c.channels
    return max(per_process.values(), default=0) * one_segment(job)


def shared_memory(job: Job, hosts: Iterable[str]) -> SharedMemory | None:
    """/dev/shm of the first of these hosts that was saved."""
    wanted = set(hosts)
    saved = job.events(SharedMemory)
    return next((s for s in saved if job.host_of(s) in wanted), None)


def locked_limits(job: Job, hosts: Iterable[str]) -> Sequence[LockedMemoryLimit]:
    """The limits of the processes of these hosts, the smallest first."""
    wanted = set(hosts)
    saved = [e for e in job.events(LockedMemoryLimit) if job.host_of(e) in wanted]
    return sorted(saved, key=lambda e: (e.limit_bytes is None, e.limit_bytes or 0))
