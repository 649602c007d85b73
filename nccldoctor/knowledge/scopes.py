"""Which variables must be the same on all ranks, which may differ, and which emergency settings cost how much."""

from collections.abc import Mapping
from dataclasses import dataclass

DECIDING = frozenset(
    {
        "NCCL_ALGO",
        "NCCL_PROTO",
        "NCCL_BUFFSIZE",
        "NCCL_LL_BUFFSIZE",
        "NCCL_LL128_BUFFSIZE",
        "NCCL_NTHREADS",
        "NCCL_LL128_NTHREADS",
        "NCCL_MIN_NCHANNELS",
        "NCCL_MAX_NCHANNELS",
        "NCCL_MIN_CTAS",
        "NCCL_MAX_CTAS",
        "NCCL_MIN_NRINGS",
        "NCCL_MAX_NRINGS",
        "NCCL_MIN_P2P_NCHANNELS",
        "NCCL_MAX_P2P_NCHANNELS",
        "NCCL_NCHANNELS_PER_NET_PEER",
        "NCCL_P2P_NET_CHUNKSIZE",
        "NCCL_P2P_NVL_CHUNKSIZE",
        "NCCL_P2P_PCI_CHUNKSIZE",
        "NCCL_P2P_LL_THRESHOLD",
        "NCCL_THREAD_THRESHOLDS",
        "NCCL_IB_QPS_PER_CONNECTION",
        "NCCL_IB_SPLIT_DATA_ON_QPS",
        "NCCL_NET",
        "NCCL_NET_PLUGIN",
        "NCCL_IB_DISABLE",
        "NCCL_P2P_DISABLE",
        "NCCL_P2P_LEVEL",
        "NCCL_SHM_DISABLE",
        "NCCL_CUMEM_ENABLE",
        "NCCL_PXN_DISABLE",
        "NCCL_NVLS_ENABLE",
        "NCCL_COLLNET_ENABLE",
        "NCCL_CROSS_NIC",
        "NCCL_MNNVL_ENABLE",
        "NCCL_TUNER_PLUGIN",
        "NCCL_PAT_ENABLE",
        "NCCL_RUNTIME_CONNECT",
        "NCCL_SOCKET_NTHREADS",
        "NCCL_NSOCKS_PERTHREAD",
    }
)
"""Ranks choose by these each for itself, and must choose alike (NCCL user guide; NCCL graph/tuning.cc, init.cc)."""

LAZY = frozenset(
    {
        "NCCL_IB_QPS_PER_CONNECTION",
        "NCCL_IB_SPLIT_DATA_ON_QPS",
        "NCCL_SHM_DISABLE",
        "NCCL_PXN_DISABLE",
        "NCCL_SOCKET_NTHREADS",
        "NCCL_NSOCKS_PERTHREAD",
        "NCCL_P2P_LL_THRESHOLD",
    }
)
"""NCCL reads these only when it connects, so a rank without such a connection says nothing of them."""

PER_HOST = frozenset(
    {
        "NCCL_SOCKET_IFNAME",
        "NCCL_OOB_NET_IFNAME",
        "GLOO_SOCKET_IFNAME",
        "NCCL_IB_HCA",
        "NCCL_IB_ADDR_RANGE",
        "NCCL_HOSTID",
        "NCCL_DEBUG",
        "NCCL_DEBUG_FILE",
        "NCCL_DEBUG_SUBSYS",
        "NCCL_DEBUG_LEVELS",
        "NCCL_WARN_ENABLE_DEBUG_INFO",
        "NCCL_DEBUG_TIMESTAMP_FORMAT",
        "NCCL_DEBUG_TIMESTAMP_LEVELS",
        "NCCL_TOPO_FILE",
        "NCCL_TOPO_DUMP_FILE",
        "NCCL_TOPO_DUMP_FILE_RANK",
        "NCCL_GRAPH_DUMP_FILE",
        "NCCL_GRAPH_DUMP_FILE_RANK",
        "NCCL_GRAPH_FILE",
        "NCCL_COMM_ID",
        "NCCL_CONF_FILE",
        "NCCL_RAS_ADDR",
        "NCCL_MNNVL_CLIQUE_ID",
        "NCCL_MNNVL_UUID",
        "NCCL_PROXY_CPUSET",
        "NCCL_VERSION",
        "NCCL_RUN_DIAGNOSTICS",
        "NCCL_RUN_RAS_DIAGNOSTICS",
        "NCCL_INSPECTOR_DUMP_DIR",
        "TORCH_FR_DUMP_TEMP_FILE",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
        "TORCH_WORKER_SERVER_SOCKET",
        "TORCHELASTIC_ERROR_FILE",
        "TORCHELASTIC_RESTART_COUNT",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_LAUNCH_BLOCKING",
        "OMP_NUM_THREADS",
        "RANK",
        "LOCAL_RANK",
        "GROUP_RANK",
        "ROLE_RANK",
        "ROLE_NAME",
        "LOCAL_WORLD_SIZE",
        "MASTER_PORT",
    }
)
"""These name things of a host, of a rank or of the log."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A variable that turns a transport off: what it turns off, and what that costs."""

    what: str
    cost: str


SWITCHES: Mapping[str, Switch] = {
    "NCCL_P2P_DISABLE": Switch(
        "direct GPU-to-GPU copies (NVLink, PCIe peer-to-peer)",
        "measured on 2 x H200: 28 instead of 327 GB/s bus bandwidth",
    ),
    "NCCL_P2P_DIRECT_DISABLE": Switch("direct pointers inside a process", "extra copies"),
    "NCCL_SHM_DISABLE": Switch(
        "shared memory between GPUs of a host",
        "data between GPUs without P2P goes through the network",
    ),
    "NCCL_IB_DISABLE": Switch(
        "InfiniBand and RoCE",
        "sockets reach a few GB/s where a 400 Gb/s HCA does nearly 50",
    ),
    "NCCL_NET": Switch(
        "every network but sockets",
        "sockets reach a few GB/s where a 400 Gb/s HCA does nearly 50",
    ),
    "NCCL_P2P_LEVEL": Switch(
        "direct GPU-to-GPU copies (NVLink, PCIe peer-to-peer)",
        "measured on 2 x H200: 28 instead of 327 GB/s bus bandwidth",
    ),
    "NCCL_NET_GDR_LEVEL": Switch("GPUDirect RDMA", "every byte takes a copy through host memory"),
    "NCCL_NVLS_ENABLE": Switch("NVLink SHARP", "up to a third of all-reduce bandwidth on NVSwitch"),
    "NCCL_PXN_DISABLE": Switch("reaching NICs through another GPU", "slower all-to-all on rails"),
    "NCCL_CUMEM_ENABLE": Switch("cuMem memory", "no NVLS, no user-buffer registration"),
    "NCCL_MNNVL_ENABLE": Switch("NVLink between hosts", "network instead of NVLink between hosts"),
    "NCCL_DMABUF_ENABLE": Switch("DMA-BUF registration", "GPUDirect only with nvidia-peermem"),
}
"""Costs: measured by the project where it says so, else the order of size from the NCCL guide and its issues."""
