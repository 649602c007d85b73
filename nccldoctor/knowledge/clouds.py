"""What the large clouds need for NCCL: how they are recognised, their plugin, their topology file."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cloud:
    """One cloud's GPU machines. `networks` are names in "Using network …" or parts of their plugins' file names; `nics`
    beginnings of their NICs' names."""

    name: str
    networks: tuple[str, ...]
    nics: tuple[str, ...]
    plugin: str
    topology_file: str
    advice: str
    source: str


CLOUDS = (
    Cloud(
        "AWS (EFA)",
        ("AWS Libfabric", "Libfabric", "ofi"),
        ("rdmap", "efa"),
        "aws-ofi-nccl: libnccl-net-ofi.so with libfabric's EFA provider",
        "comes with the plugin, by instance type",
        "export FI_PROVIDER=efa; ls /opt/amazon/efa /opt/aws-ofi-nccl; fi_info -p efa  # AWS: must list a device; costs nothing",
        "https://github.com/aws/aws-ofi-nccl",
    ),
    Cloud(
        "Azure (InfiniBand)",
        ("IB",),
        ("mlx5_ib", "mlx5_an"),
        "none needed; HPC-X brings SHARP",
        "/opt/microsoft/ndv4-topo.xml, /opt/microsoft/ndv5-topo.xml",
        "export NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml  # Azure: one per machine type (ndv4, ndv5), mounted into the container; costs nothing",
        "https://github.com/Azure/azhpc-images",
    ),
    Cloud(
        "Google Cloud (A3 High)",
        ("GPUDirectTCPX", "TCPX"),
        ("eth",),
        "GPUDirect-TCPX: libnccl-net.so, and the receive-datapath manager on each host",
        "none",
        "export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth1,eth2,eth3,eth4 NCCL_SOCKET_IFNAME=eth0  # Google A3 High; costs nothing",
        "https://cloud.google.com/compute/docs/gpus/gpudirect",
    ),
    Cloud(
        "Google Cloud (A3 Mega)",
        ("FasTrak", "TCPXO"),
        ("eth",),
        "GPUDirect-TCPXO (FasTrak): libnccl-net.so, and its receive daemon on each host",
        "none",
        "source /var/lib/tcpxo/lib64/nccl-env-profile.sh  # Google: the variables that the plugin insists on; costs nothing",
        "https://cloud.google.com/compute/docs/gpus/gpudirect",
    ),
    Cloud(
        "Google Cloud (A3 Ultra, A4)",
        ("gIB", "RDMA-gIB"),
        ("mlx5_", "rocep", "gpu"),
        "gIB: libnccl-net.so for RoCE",
        "none",
        "source /usr/local/gib/scripts/set_nccl_env.sh  # Google: the variables that the plugin insists on; costs nothing",
        "https://cloud.google.com/ai-hypercomputer/docs/nccl/configure",
    ),
)


def cloud_of_network(network: str) -> Cloud | None:
    """The cloud whose plugin calls itself so, or so and a version; None for NCCL's own networks."""
    named = network.casefold()
    return next(
        (c for c in CLOUDS for n in c.networks if n != "IB" and named.startswith(n.casefold())),
        None,
    )


def cloud_of_plugin(plugin: str) -> Cloud | None:
    """The cloud whose plugin has this name or file: `ofi`, `libnccl-net-ofi.so`, `FasTrak`, `libnccl-net_gib.so`."""
    named = plugin.casefold()
    words = {cloud: [n.casefold() for n in cloud.networks if n != "IB"] for cloud in CLOUDS}
    fitting = [
        (len(word), cloud.name, cloud)
        for cloud, all_ in words.items()
        for word in all_
        if word in named
    ]
    return max(fitting, key=lambda found: found[:2])[2] if fitting else None


def cloud_of_nic(nic: str) -> Cloud | None:
    """The cloud that names its network cards so, where no other machine does."""
    return next(
        (c for c in CLOUDS if nic.startswith(tuple(n for n in c.nics if n not in _COMMON))), None
    )


_COMMON = frozenset({"eth", "mlx5_", "rocep", "gpu"})
