"""How fast links are, and what a collective makes of them: tables with their sources, and the sum over them."""

import re
from dataclasses import dataclass

NVLINK_GBYTES = {"1": 18.0, "2": 20.0, "3": 20.0, "4": 20.6, "5": 40.1}
"""GB/s that NCCL counts on per NVLink and direction (SM60…SM100_NVLINK_BW in NCCL's src/graph/topo.h).

The wire gives 20, 25, 25, 25 and 50 (NVIDIA's architecture white papers); NVLink 3 to 5 differ in lanes per link.
"""

PCIE_GBYTES_X16 = {1: 3.0, 2: 6.0, 3: 12.0, 4: 24.0, 5: 48.0, 6: 96.0}
"""GB/s that NCCL counts on for 16 lanes (ncclTopoGetPciBw: lanes × {15, 30, 60, 120, 240, 480} × 0.1 Gb/s ÷ 8)."""

SXM_GPUS = (
    ("GB300", 18, "5"),
    ("GB200", 18, "5"),
    ("B300", 18, "5"),
    ("B200", 18, "5"),
    ("H200", 18, "4"),
    ("H100 80GB HBM3", 18, "4"),
    ("H100-SXM", 18, "4"),
    ("H800", 8, "4"),
    ("H20", 18, "4"),
    ("A100-SXM", 12, "3"),
    ("A800-SXM", 8, "3"),
    ("V100-SXM", 6, "2"),
    ("P100-SXM", 4, "1"),
)
"""Names of GPUs that only come with NVLink: (part of the name, links, NVLink version), from NVIDIA's data sheets.

A800 and H800 are cut to 8 links. L40S, L4, RTX and every `PCIe` form have none: their PCIe link decides.
"""

XGMI_GPUS = (("MI300X", 7), ("MI325X", 7), ("MI350X", 7), ("MI355X", 7))
XGMI_GBYTES = 48.0
"""(part of the name, links to the other GPUs of the host), and the GB/s a link that RCCL counts on (its topo.h).

What collectives reach over XGMI was not measured, so nothing is expected of them. MI250 counts 36 GB/s a link, but its
links differ from pair to pair; its name alone tells nothing.
"""

_NOT_SXM = re.compile(r"\bNVL\b|PCIe|PCI-E|MIG", re.IGNORECASE)

SHARE_NVLINK = {
    "AllReduce": 0.88,
    "AllGather": 0.72,
    "ReduceScatter": 0.73,
    "Broadcast": 0.98,
    "Reduce": 0.98,
    "AlltoAll": 0.88,
    "SendRecv": 0.96,
}
"""Bus bandwidth at 1 GiB ÷ what NCCL counts on, measured on 2 × H200, 18 NVLinks, NCCL 2.28, without NVLS.

More GPUs, and NVLink SHARP, only raise it. Gather and Scatter are not in the table: nothing is expected of them.
"""

SHARE_PCIE = 0.5
"""Of a GPU's PCIe link, when all traffic goes through the host (measured: 27.5 of 48 on 2 × H200 with P2P off)."""

SHARE_NETWORK = 0.8
"""Of a host's network cards together, for rings that use all of them."""

RING_OPS = frozenset({"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"})
"""Collectives whose bus bandwidth between hosts is that of all network cards of one host."""

LATENCY_US = {"nvlink": 50.0, "pcie": 80.0, "network": 300.0}
"""What a call costs besides its transfer; where the transfer is not four times as long, size decides, not the link."""

ENOUGH = {"nvlink": 0.6, "pcie": 0.5, "network": 0.5}
"""Below this part of what is expected, something is wrong; above it, it may be the machine's own way."""


@dataclass(frozen=True, slots=True)
class Fabric:
    """The link that limits a group of ranks: `kind` nvlink, xgmi, pcie or network, GB/s per GPU (per host for network)."""

    kind: str
    gbytes_per_second: float
    name: str


def nvlink(links: int, version: str) -> Fabric:
    """All NVLinks of one GPU; an unknown version counts as the slowest that could be meant."""
    per_link = NVLINK_GBYTES.get(version, NVLINK_GBYTES["2"])
    return Fabric("nvlink", links * per_link, f"{links} NVLinks of version {version}")


def nvlink_version(gbytes_per_second: float) -> str:
    """The version from a link's speed as nvidia-smi shows it (19.5…53.1 GB/s)."""
    for limit, version in ((22.0, "1"), (26.2, "3"), (40.0, "4")):
        if gbytes_per_second < limit:
            return version
    return "5"


def pcie(generation: int, width: int) -> Fabric | None:
    """One GPU's PCIe link; None for a generation that is not known."""
    full = PCIE_GBYTES_X16.get(generation)
    if full is None:
        return None
    return Fabric("pcie", full * width / 16, f"PCIe {generation}.0 x{width}")


def sxm(name: str) -> Fabric | None:
    """What a GPU's name says of its NVLinks, where that name comes in one form only."""
    if _NOT_SXM.search(name):
        return None
    for part, links, version in SXM_GPUS:
        if re.search(rf"\b{re.escape(part)}", name):
            return nvlink(links, version)
    return None


def xgmi(name: str) -> Fabric | None:
    """What the name of an AMD GPU says of its links inside the host."""
    for part, count in XGMI_GPUS:
        if re.search(rf"\b{part}", name):
            return Fabric("xgmi", count * XGMI_GBYTES, f"{count} XGMI links")
    return None


def transfer_us(op: str, size_bytes: int, ranks: int, gbytes_per_second: float) -> float:
    """How long the wire needs at this bus bandwidth; 0 for an unknown collective."""
    return size_bytes * _factor(op, ranks) / gbytes_per_second / 1e3


def expected(fabric: Fabric, op: str, ranks: int, size_bytes: int) -> float | None:
    """Bus GB/s that this collective should reach over this link; None where link, size or collective do not tell."""
    share = {
        "nvlink": SHARE_NVLINK.get(op),
        "pcie": SHARE_PCIE if op in SHARE_NVLINK else None,
        "network": SHARE_NETWORK if op in RING_OPS else None,
    }.get(fabric.kind)
    if share is None or ranks < 2:
        return None
    best = fabric.gbytes_per_second * share
    transfer, latency = transfer_us(op, size_bytes, ranks, best), LATENCY_US[fabric.kind]
    if transfer < 4 * latency:
        return None
    return best * transfer / (transfer + latency)


def _factor(op: str, ranks: int) -> float:
    if op == "AllReduce":
        return 2 * (ranks - 1) / ranks
    if op in ("AllGather", "ReduceScatter", "AlltoAll", "Gather", "Scatter"):
        return (ranks - 1) / ranks
    return 1.0
