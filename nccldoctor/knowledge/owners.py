"""Who reads the variables that look like NCCL's and are not: plugins, containers, frameworks."""

from collections.abc import Mapping

PREFIXES: Mapping[str, str] = {
    "OFI_NCCL_": "aws-ofi-nccl (github.com/aws/aws-ofi-nccl)",
    "NCCL_OFI_": "aws-ofi-nccl (github.com/aws/aws-ofi-nccl)",
    "NCCL_GIB_": "Google's gIB plugin",
    "NCCL_FASTRAK_": "Google's GPUDirect-TCPXO (FasTrak) plugin",
    "NCCL_GPUDIRECTTCPX_": "Google's GPUDirect-TCPX plugin",
    "NCCL_TCPX_": "Google's GPUDirect-TCPX plugin",
    "NCCL_TCPXO_": "Google's GPUDirect-TCPXO plugin",
    "NCCL_FASTSOCKET_": "Google's Fast Socket plugin (github.com/google/nccl-fastsocket)",
    "NCCL_SHIMNET_": "Google's network shim plugin",
    "NCCL_GCP_": "Google's network plugins",
    "NCCL_UCX_": "the UCX plugin (github.com/Mellanox/nccl-rdma-sharp-plugins)",
    "NCCL_UCC_": "the UCC plugin",
    "NCCL_SHARP_": "the SHARP plugin (github.com/Mellanox/nccl-rdma-sharp-plugins)",
    "NCCL_IBEXT_": "the IBext plugin (github.com/Mellanox/nccl-rdma-sharp-plugins)",
    "NCCL_TESTS_": "nccl-tests (github.com/NVIDIA/nccl-tests)",
    "NCCL_INSPECTOR_": "NCCL's Inspector plugin",
    "NCCL_PROFILE_": "NCCL's example profiler plugin",
    "NCCL_RDMA_SHARP_": "github.com/Mellanox/nccl-rdma-sharp-plugins",
    "MSCCL_": "MSCCL",
    "MSCCLPP_": "MSCCL++ (github.com/microsoft/mscclpp)",
    "UCX_": "UCX",
    "FI_": "libfabric",
    "SHARP_COLL_": "NVIDIA SHARP",
    "HOROVOD_": "Horovod",
    "VLLM_": "vLLM",
    "RAY_": "Ray",
    "NVSHMEM_": "NVSHMEM",
}
"""Prefix → who reads it. Sources: the plugins' own documents and sources."""

NAMES: Mapping[str, str] = {
    "NCCL_VERSION": "container images, to say which NCCL they hold; NCCL does not read it",
    "NCCL_HOME": "builds",
    "NCCL_ROOT": "builds",
    "NCCL_ROOT_DIR": "builds",
    "NCCL_DIR": "builds",
    "NCCL_PATH": "builds",
    "NCCL_INCLUDE_DIR": "builds",
    "NCCL_INCLUDE_DIRS": "builds",
    "NCCL_INCLUDE_PATH": "builds",
    "NCCL_LIB_DIR": "builds",
    "NCCL_LIBRARY": "builds",
    "NCCL_LIBRARIES": "builds",
    "NCCL_LIBRARY_PATH": "builds",
    "NCCL_LIB_PATH": "builds",
    "NCCL_SO_PATH": "frameworks that load NCCL by path",
    "NCCL_INSTALL_PATH": "builds",
    "NCCL_INSTALL_PREFIX": "builds",
    "NCCL_DEB_VERSION": "container images",
    "NCCL_PKG_VERSION": "container images",
    "NCCL_LAUNCHER": "scripts",
    "NCCL_PLUGIN_P2P": "the SHARP plugin (github.com/Mellanox/nccl-rdma-sharp-plugins)",
    "NCCL_TUNER_CONFIG_PATH": "Google's tuner plugin",
    "NCCL_NET_GDR_PLUGIN": "plugins",
}


def owner(name: str) -> str | None:
    """Who else reads this variable; None where nobody else is known."""
    if name in NAMES:
        return NAMES[name]
    fitting = [prefix for prefix in PREFIXES if name.startswith(prefix)]
    return PREFIXES[max(fitting, key=len)] if fitting else None
