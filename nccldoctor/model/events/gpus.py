"""GPUs and their links, as NVML, nvidia-smi and NCCL's topology files tell of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nccldoctor.model.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState(Event):
    """One GPU of a host as NVML or nvidia-smi shows it; None = not told."""

    index: int
    name: str | None = None
    uuid: str | None = None
    bus_id: str | None = None
    nvlinks_active: int | None = None
    nvlinks_total: int | None = None
    nvlink_gbytes_per_second: float | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMatrix(Event):
    """`nvidia-smi topo -m`: (row, column) → NV18, PIX, SYS …; devices named as there (GPU0, NIC0)."""

    devices: tuple[str, ...]
    links: Mapping[tuple[str, str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyNode:
    """One element of a topology file, flattened: `path` are the indexes that lead to it."""

    tag: str
    path: tuple[int, ...]
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyFile(Event):
    """NCCL_TOPO_DUMP_FILE or NCCL_GRAPH_DUMP_FILE."""

    root: str
    nodes: tuple[TopologyNode, ...]
