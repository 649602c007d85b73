"""How a job was started and called: ranks, rendezvous, arguments, and processes that fall in native code."""

from dataclasses import dataclass

from nccldoctor.model.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidUsage(Event):
    """A call that NCCL refuses, with its reason: `AllReduce : invalid root 7 (root should be in the 0..4 range)`."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTaken(Event):
    """`Bootstrap Root : rank 1 of 4 ranks has already checked in`: two processes with one rank."""

    rank: int
    nranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankCountDiffers(Event):
    """`Bootstrap Root : mismatch in rank count from procs 4 : 8`."""

    nranks: int
    other_nranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOutOfRange(Event):
    """`Invalid rank requested : 8/8`: ranks count from 0 to nranks - 1."""

    rank: int
    nranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NameUnresolved(Event):
    """`The IPv6 network addresses of (head-node, 29500) cannot be retrieved (gai error: -2 - …)`."""

    name: str
    family: str
    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableMissing(Event):
    """`… env:// rendezvous: environment variable RANK expected, but not set`: started without a launcher."""

    variable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignServer(Event):
    """`Ping failed, invalid value returned from server`: something that is no TCPStore listens on the port."""

    got: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclTestsRank(Event):
    """`#  Rank  0 Group  0 Pid  62 on host-1 device  0 [0000:1b:00] NVIDIA H200`: a rank of nccl-tests."""

    test_rank: int
    test_pid: int
    test_host: str
    device: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolMissing(Event):
    """`undefined symbol: ncclCommRegister`: a program was built against another NCCL than the loader finds."""

    symbol: str
    library: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FatalSignal(Event):
    """A process that was ended by a fault: `Signal: Segmentation fault (11)`; `signal` is its number.

    `library` where the same line tells it (kernel log).
    """

    signal: int
    library: str | None = None
    fallen_pid: int | None = None
    fallen_host: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFrame(Event):
    """A frame of a native stack inside NCCL, RCCL or one of their plugins."""

    library: str
    function: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendNotBuilt(Event):
    """`Distributed package doesn't have NCCL built in`."""

    backend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpusInUse(Event):
    """The program says that it computes on GPUs: `GPU available: True (cuda), used: True`."""

    gpus: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAssert(Event):
    """``Indexing.cu:1290: indexSelectLargeIndex: block: [5,0,0] … Assertion `srcIndex < srcSelectDimSize` failed``."""

    kernel: str
    condition: str
