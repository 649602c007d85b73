"""Pairs of settings of which one makes the other pointless or wrong."""

from dataclasses import dataclass

ANY = "*"
"""Any value that is not empty."""
ON = "on"
"""Any number but 0."""
OFF = "off"
"""The number 0."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """While `one` has the value `one_value`, `other` with `other_value` is what `why` says."""

    one: str
    one_value: str
    other: str
    other_value: str
    why: str


CONFLICTS = (
    Conflict("NCCL_IB_DISABLE", ON, "NCCL_IB_HCA", ANY, "the devices of NCCL_IB_HCA are never opened"),
    Conflict("NCCL_IB_DISABLE", ON, "NCCL_IB_GID_INDEX", ANY, "InfiniBand settings have no effect"),
    Conflict("NCCL_IB_DISABLE", ON, "NCCL_IB_TIMEOUT", ANY, "InfiniBand settings have no effect"),
    Conflict("NCCL_IB_DISABLE", ON, "NCCL_NET", "IB", "the network that is asked for is turned off"),
    Conflict("NCCL_NET", "Socket", "NCCL_IB_HCA", ANY, "sockets are forced, so HCAs are not used"),
    Conflict("NCCL_NET", "Socket", "NCCL_NET_GDR_LEVEL", ANY, "GPUDirect RDMA needs RDMA, not sockets"),
    Conflict("NCCL_NET_PLUGIN", "none", "OFI_NCCL_PROTOCOL", ANY, "the plugin that it speaks to is off"),
    Conflict("NCCL_P2P_DISABLE", ON, "NCCL_P2P_LEVEL", ANY, "the level has no effect while P2P is off"),
    Conflict("NCCL_P2P_DISABLE", ON, "NCCL_NVLS_ENABLE", ON, "NVLink SHARP needs P2P"),
    Conflict("NCCL_P2P_DISABLE", ON, "NCCL_SHM_DISABLE", ON, "GPUs of one host are left with the network alone"),
    Conflict("NCCL_CUMEM_ENABLE", OFF, "NCCL_NVLS_ENABLE", ON, "NVLink SHARP needs cuMem memory"),
    Conflict("NCCL_CUMEM_ENABLE", OFF, "NCCL_MNNVL_ENABLE", ON, "NVLink between hosts needs cuMem memory"),
    Conflict("NCCL_DEBUG_SUBSYS", ANY, "NCCL_DEBUG", "WARN", "subsystems filter INFO lines, and there are none at WARN"),
    Conflict("TORCH_NCCL_BLOCKING_WAIT", ON, "TORCH_NCCL_DUMP_ON_TIMEOUT", ON, "blocking wait ends without the watchdog, so nothing is dumped"),
    Conflict("TORCH_NCCL_ASYNC_ERROR_HANDLING", OFF, "TORCH_NCCL_DUMP_ON_TIMEOUT", ON, "nobody handles errors, so the job hangs after the dump"),
    Conflict("TORCH_NCCL_ENABLE_MONITORING", OFF, "TORCH_NCCL_DUMP_ON_TIMEOUT", ON, "the monitor thread writes the dump, and it is off"),
    Conflict("TORCH_FR_BUFFER_SIZE", OFF, "TORCH_NCCL_DUMP_ON_TIMEOUT", ON, "a dump of an empty recorder tells nothing"),
    Conflict("TORCH_NCCL_TRACE_BUFFER_SIZE", OFF, "TORCH_NCCL_DUMP_ON_TIMEOUT", ON, "a dump of an empty recorder tells nothing"),
)  # fmt: skip
"""Source: NCCL user guide, environment variables; PyTorch ProcessGroupNCCL."""

MINIMUM_OVER_MAXIMUM = (
    ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
    ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS"),
    ("NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS"),
)
"""Pairs whose first must not be above the second."""

MOST_SOCKETS = 64
"""NCCL_SOCKET_NTHREADS x NCCL_NSOCKS_PERTHREAD must not be above this (NCCL user guide)."""
