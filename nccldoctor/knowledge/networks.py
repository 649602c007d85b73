"""What the names in "Using network …" and "via NET/…" mean."""


def is_rdma(network: str | None) -> bool:
    """Is this InfiniBand, RoCE, EFA or a cloud's RDMA NIC? FastSocket and TCPX are faster sockets."""
    return network is not None and (
        network.startswith(("IB", "gIB", "UCX", "RoCE", "FasTrak")) or "Libfabric" in network
    )
