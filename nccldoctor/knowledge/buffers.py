"""Default buffer sizes of NCCL, and the GPU memory that connections take."""

from collections.abc import Mapping

BUFFERS: Mapping[str, int] = {
    "NCCL_BUFFSIZE": 4 << 20,
    "NCCL_LL_BUFFSIZE": 8 * 512 * 8 * 16,
    "NCCL_LL128_BUFFSIZE": 120 * 640 * 8 * 8,
}
"""Bytes a connection and protocol (Simple, LL, LL128), from NCCL's device.h: lines x threads x steps x bytes."""

CONNECTIONS_PER_CHANNEL = 4
"""Ring neighbours and tree neighbours of a rank in the middle of both; at the least."""

SEGMENT_HEAD = 4096
"""Bytes of bookkeeping before the buffers of a shared-memory segment (struct ncclRecvMem)."""


def segment(sizes: Mapping[str, int]) -> int:
    """Bytes that one connection of one channel takes in host memory: in /dev/shm with the SHM transport, or locked for
    a network card without GPUDirect; 9637888 by default, as NCCL's own complaints say."""
    return SEGMENT_HEAD + sum(sizes.get(name, default) for name, default in BUFFERS.items())


def memory(channels: int, sizes: Mapping[str, int]) -> int:
    """Bytes of GPU memory that buffers of these sizes take on one rank, at the least."""
    per_connection = sum(sizes.get(name, default) for name, default in BUFFERS.items())
    return channels * CONNECTIONS_PER_CHANNEL * per_connection
