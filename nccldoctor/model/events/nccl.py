"""What NCCL and RCCL say of themselves when all is well: set-up, network, topology, channels, environment."""

from dataclasses import dataclass

from nccldoctor.model.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(Event):
    """`NCCL version 2.28.9+cuda13.0`; `library` is nccl or rccl."""

    version: str
    library: str = "nccl"
    cuda: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverVersion(Event):
    """`cudaDriverVersion 13000`: what the driver supports, as CUDA's integer."""

    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSet(Event):
    """`NCCL_X set by environment to V`: a variable as the library read it."""

    variable: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapInterface(Event):
    """`Bootstrap: Using eth0:10.0.0.1<0>`."""

    interface: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkChosen(Event):
    """`Using network IB`: what a communicator uses between hosts."""

    network: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NetDevices(Event):
    """`NET/IB : Using [0]mlx5_0:1/IB …`: devices of one built-in network, as the line lists them."""

    network: str
    devices: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommStart(Event):
    """`ncclCommInitRank comm 0x… rank 3 nranks 8 … - Init START`."""

    comm: str
    rank: int
    nranks: int
    device: int | None = None
    nvml_device: int | None = None
    bus_id: str | None = None
    comm_id: str | None = None
    parent: str | None = None
    split: int | None = None
    color: int | None = None
    key: int | None = None
    api: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommComplete(CommStart):
    """The same line with `Init COMPLETE`: this rank is through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommGone(Event):
    """`comm 0x… rank 0 nranks 8 … - Destroy COMPLETE`; `how` is Destroy, Abort or Revoke, `phase` START or COMPLETE."""

    comm: str
    rank: int
    nranks: int
    how: str
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommShape(Event):
    """`comm 0x… rank 0 nRanks 8 nNodes 4 localRanks 2 localRank 0 MNNVL 0`."""

    comm: str
    rank: int
    nranks: int
    hosts: int
    local_ranks: int
    local_rank: int
    mnnvl: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InitTimings(Event):
    """`Init timings - …: rank 0 nranks 8 total 0.53 (kernels …)`; seconds."""

    rank: int
    nranks: int
    total: float
    parts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelCounts(Event):
    """`24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer`."""

    collective: int
    p2p: int
    nvls: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge(Event):
    """`Channel 00/0 : 5[1] -> 6[0] [receive] via NET/Socket/0`: one connection of a ring or tree.

    `transport` is P2P, SHM, NET or COLLNET; `detail` the rest (`CUMEM/read`, `IB/0/GDRDMA`).
    """

    channel: int
    source: int
    target: int
    source_device: str
    target_device: str
    transport: str
    detail: str = ""
    direction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RingOrder(Event):
    """`Channel 00/24 : 0 1 2 3`: the ring of one channel from rank 0 on, which rank 0 prints; cut at 127 characters."""

    channel: int
    ranks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSeats(Event):
    """`Trees [0] 1/-1/-1->0->-1 [1] …`: a rank's children and parent in the tree of each channel."""

    seats: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected(Event):
    """`Connected all rings`, `Connected all trees`, …"""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFound(Event):
    """`Pattern 4, crossNic 0, nChannels 12, bw 24.0/24.0, type NVL/PIX, sameChannels 1`; GB/s per channel."""

    pattern: int
    channels: int
    intra_bandwidth: float
    inter_bandwidth: float
    intra_type: str
    inter_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyLine(Event):
    """A line of the `=== System ===` dump: the length of `indent` is the depth; `link` and GB/s lead to `node`."""

    indent: str
    node: str
    link: str | None = None
    bandwidth: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathLine(Event):
    """A line of the path table: `GPU/0-60 :GPU/0-60 (0/5000.0/LOC) …`."""

    node: str
    paths: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmChosen(Event):
    """`AllReduce: 16777216 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}`."""

    op: str
    size_bytes: int
    algorithm: str
    protocol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDirect(Event):
    """`NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'` and its per-GPU forms.

    `distance` and `limit` are NCCL's numbers of path types, whose meaning moved from version to version.
    """

    state: str
    subject: str
    network: str | None = None
    distance: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic(Event):
    """`NCCL DIAG [OK]   p2p: verified …`: NCCL's own check (2.31+); `verdict` is OK or INFO."""

    verdict: str
    check: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise(Event):
    """A line that is known and says nothing a diagnosis needs. Counted as understood, then dropped."""
