"""How much memory of a host a job's connections take, summed over what logs show of them."""

from collections.abc import Iterable

from nccldoctor.knowledge.networks import is_rdma
from nccldoctor.model.topology import Connection


def shared(connections: Iterable[Connection], host: str, segment_bytes: int) -> int:
    """Bytes of /dev/shm that the shared-memory connections of this host take, `segment_bytes` a channel."""
    here = (
        c for c in connections if c.transport == "SHM" and host in (c.source_host, c.target_host)
    )
    return sum(c.channels for c in here) * segment_bytes


def locked(connections: Iterable[Connection], host: str, segment_bytes: int) -> int:
    """Bytes that the busiest process of this host locks for RDMA without GPUDirect, `segment_bytes` a channel."""
    per_process: dict[int, int] = {}
    for c in connections:
        if c.transport != "NET" or not is_rdma(c.network) or c.gdr:
            continue
        for process, where in (
            (c.source_process, c.source_host),
            (c.target_process, c.target_host),
        ):
            if process is not None and where == host:
                per_process[process] = per_process.get(process, 0) + c.channels
    return max(per_process.values(), default=0) * segment_bytes
