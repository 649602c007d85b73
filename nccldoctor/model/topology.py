"""A host as a graph of GPUs, NVLink, PCIe, NICs and CPUs, and the connections and rings that NCCL laid over it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nccldoctor.model.source import Line

NEARNESS = {
    kind: place
    for place, kinds in enumerate(
        (
            ("LOC", "X"),
            ("NVL",),
            ("NVB", "C2C"),
            ("PIX",),
            ("PXB", "P2C"),
            ("PXN",),
            ("PHB", "NODE"),
            ("SYS",),
            ("NET", "DIS"),
        )
    )
    for kind in kinds
}
"""Kinds of paths from near to far, in the words of NCCL and of `nvidia-smi topo -m`; smaller is nearer."""

FAR = NEARNESS["SYS"]
NVLINKED = frozenset({"NVL", "NVB"})


@dataclass(frozen=True, slots=True)
class Device:
    """One part of a host: `kind` is GPU, NIC, NET, CPU, PCI or NVS; `id` as its source writes it.

    `bus_id` is NCCL's short form (`c1000`, `60`), `index` NVML's or the network's number, `rank` the global rank.
    """

    id: str
    kind: str
    bus_id: str | None = None
    index: int | None = None
    rank: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A direct link; `kind` is NVL, PCI, SYS, C2C, NET or LOC."""

    a: str
    b: str
    kind: str
    gbytes_per_second: float | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Path:
    """The way between two devices; `kind` is its worst part (see NEARNESS), `count` of NVLinks where told."""

    source: str
    target: str
    kind: str
    gbytes_per_second: float | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class HostTopology:
    """One host as one source sees it; `origin` is NCCL, a topology file, or nvidia-smi; `line` is the proof."""

    host: str
    origin: str
    line: Line
    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    paths: Mapping[tuple[str, str], Path]

    @property
    def gpus(self) -> tuple[Device, ...]:
        return tuple(d for d in self.devices if d.kind == "GPU")

    @property
    def nics(self) -> tuple[Device, ...]:
        """Networks as NCCL numbers them, else the cards as nvidia-smi lists them."""
        networks = tuple(d for d in self.devices if d.kind == "NET")
        return networks or tuple(d for d in self.devices if d.kind == "NIC")

    @property
    def has_nvswitch(self) -> bool:
        return any(d.kind == "NVS" for d in self.devices)

    def path(self, source: str, target: str) -> Path | None:
        """The path between two devices, in either direction; None when it is not told."""
        return self.paths.get((source, target)) or self.paths.get((target, source))

    def gpu_of(self, *, bus_id: str | None = None, index: int | None = None) -> Device | None:
        """The GPU with this bus id, else with this index."""
        for gpu in self.gpus:
            if bus_id is not None and gpu.bus_id == bus_id.lower():
                return gpu
        return next((g for g in self.gpus if index is not None and g.index == index), None)

    def islands(self) -> tuple[tuple[Device, ...], ...]:
        """GPUs joined by NVLink, directly or over others; a GPU without NVLink is an island of its own."""
        left = list(self.gpus)
        found = []
        while left:
            island, edge = [left[0]], [left.pop(0)]
            while edge:
                here = edge.pop()
                near = [g for g in left if self.nvlinked(here.id, g.id)]
                left = [g for g in left if g not in near]
                island += near
                edge += near
            found.append(tuple(sorted(island, key=lambda g: self.gpus.index(g))))
        return tuple(found)

    def nvlinked(self, a: str, b: str) -> bool:
        """Does NVLink join two GPUs, by their path or by the links themselves? With P2P off only links tell."""
        path = self.path(a, b)
        if path is not None and path.kind in NVLINKED:
            return True
        shared = self._nvlink_ends(a) & self._nvlink_ends(b)
        return any(end in (a, b) or end.startswith("NVS") for end in shared)

    def _nvlink_ends(self, gpu: str) -> frozenset[str]:
        """The GPU itself and what its NVLinks lead to; from 2.30 on they start at a DEV beside the GPU."""
        own = {gpu} | {
            other
            for k in self.links
            if k.kind == "LOC" and gpu in (k.a, k.b)
            for other in (k.a, k.b)
        }
        ends = {
            other
            for k in self.links
            if k.kind == "NVL" and (k.a in own or k.b in own)
            for other in (k.a, k.b)
        }
        return frozenset(own | ends) - {d.id for d in self.devices if d.kind == "CPU"}


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection between two ranks of a communicator, over all its channels.

    `source` and `target` are ranks of the communicator; processes and hosts are None where unknown. `network` and `nic`
    are for NET; `gdr` is None unless NET; `proxy` is the rank through whose NIC it goes (PXN). `path` is the kind of
    path between the GPUs when both are on one host and its topology is known.
    """

    communicator: str | None
    source: int
    target: int
    transport: str
    detail: str
    channels: int
    line: Line
    writer: int | None = None
    source_process: int | None = None
    target_process: int | None = None
    source_host: str | None = None
    target_host: str | None = None
    direction: str | None = None
    network: str | None = None
    nic: int | None = None
    gdr: bool | None = None
    proxy: int | None = None
    path: Path | None = None

    @property
    def inside_host(self) -> bool:
        return self.source_host is not None and self.source_host == self.target_host


@dataclass(frozen=True, slots=True)
class TreeEdge:
    """A parent and a child in the trees of a communicator; `channels` is in how many of them. Ranks of the communicator."""

    communicator: str
    parent: int
    child: int
    channels: int


@dataclass(frozen=True, slots=True)
class Ring:
    """The order of ranks in one channel's ring; rank numbers of the communicator."""

    communicator: str | None
    channel: int
    ranks: tuple[int, ...]
    line: Line

    def crossings(self, group_of: Mapping[int, int]) -> int:
        """How many of its edges lead from one group of ranks into another; unknown ranks do not count."""
        pairs: Iterable[tuple[int, int]] = zip(
            self.ranks, self.ranks[1:] + self.ranks[:1], strict=True
        )
        return sum(group_of[a] != group_of[b] for a, b in pairs if a in group_of and b in group_of)
