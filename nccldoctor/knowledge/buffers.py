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

SHM_BYTES_PER_RANK = 32 << 20
"""About what a rank's segments in /dev/shm take with the SHM transport at default sizes; measured on 2 x H200."""


def memory(channels: int, sizes: Mapping[str, int]) -> int:
    """Bytes of GPU memory that buffers of these sizes take on one rank, at the least."""
    per_connection = sum(sizes.get(name, default) for name, default in BUFFERS.items())
    return channels * CONNECTIONS_PER_CHANNEL * per_connection
