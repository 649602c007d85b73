"""What the large clouds need for NCCL: how they are recognised, their plugin, their topology file."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cloud:
    """One cloud's GPU machines. `networks` are names in "Using network …"; `nics` beginnings of their NICs' names."""

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
        "export FI_PROVIDER=efa; ls /opt/amazon/efa /opt/aws-ofi-nccl; fi_info -p efa  # must list a device",
        "https://github.com/aws/aws-ofi-nccl",
    ),
    Cloud(
        "Azure (InfiniBand)",
        ("IB",),
        ("mlx5_ib", "mlx5_an"),
        "none needed; HPC-X brings SHARP",
        "/opt/microsoft/ndv4-topo.xml, /opt/microsoft/ndv5-topo.xml",
        "export NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml  # mount it into the container",
        "https://github.com/Azure/azhpc-images",
    ),
    Cloud(
        "Google Cloud (A3 High)",
        ("GPUDirectTCPX", "TCPX"),
        ("eth",),
        "GPUDirect-TCPX: libnccl-net.so, and the receive-datapath manager on each host",
        "none",
        "export NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=eth1,eth2,eth3,eth4 NCCL_SOCKET_IFNAME=eth0",
        "https://cloud.google.com/compute/docs/gpus/gpudirect",
    ),
    Cloud(
        "Google Cloud (A3 Mega)",
        ("FasTrak", "TCPXO"),
        ("eth",),
        "GPUDirect-TCPXO (FasTrak): libnccl-net.so, and its receive daemon on each host",
        "none",
        "source /var/lib/tcpxo/lib64/nccl-env-profile.sh  # the variables that the plugin insists on",
        "https://cloud.google.com/compute/docs/gpus/gpudirect",
    ),
    Cloud(
        "Google Cloud (A3 Ultra, A4)",
        ("gIB", "RDMA-gIB"),
        ("mlx5_", "rocep", "gpu"),
        "gIB: libnccl-net.so for RoCE",
        "none",
        "source /usr/local/gib/scripts/set_nccl_env.sh  # the variables that the plugin insists on",
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
