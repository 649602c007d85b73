"""What NCCL's connections need of a host's memory, against what nccldoctor saved of that host."""

from collections.abc import Iterable, Sequence

from nccldoctor.diagnose.settings import named, number
from nccldoctor.knowledge import needs
from nccldoctor.knowledge.buffers import BUFFERS, segment
from nccldoctor.model.events.machine import LockedMemoryLimit, SharedMemory
from nccldoctor.model.job import Job


def one_segment(job: Job) -> int:
    """Bytes of one connection of one channel, at the sizes that the job sets."""
    sizes = {s.variable: value for s in named(job, *BUFFERS) if (value := number(s))}
    return segment(sizes)


def shared_need(job: Job, host: str) -> int:
    """Bytes of /dev/shm that the shared-memory connections of this host take, as far as the logs show them."""
    return needs.shared(job.connections, host, one_segment(job))


def locked_need(job: Job, host: str) -> int:
    """Bytes that the busiest process of this host locks for RDMA without GPUDirect, as far as the logs show it."""
    return needs.locked(job.connections, host, one_segment(job))


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
