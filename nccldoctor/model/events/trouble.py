"""What NCCL and RCCL complain of. A complaint is what the library says, not yet what is wrong."""

from dataclasses import dataclass

from nccldoctor.model.event import Event

QUOTED = "Last error"
"""The place of what PyTorch and XLA quote as NCCL's last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(Event):
    """A WARN, ATTN or FATAL ERROR line that no other pattern knows."""

    message: str
    level: str
    place: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorReturned(Event):
    """`init.cc:1543 (initTransportsRank) -> 3`: one step of the call path of a failure."""

    place: str
    result: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateGpu(Event):
    """`Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60` and its later forms."""

    first_rank: int | None = None
    second_rank: int | None = None
    bus_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoInterface(Event):
    """`Bootstrap : no socket interface found` and kin."""

    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoNetwork(Event):
    """`Failed to initialize any NET plugin`, `Error: network X not found.`"""

    network: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BadToken(Event):
    """`Unrecognized element token "Rign" when parsing "Rign"` (NCCL_ALGO, NCCL_PROTO)."""

    token: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BadValue(Event):
    """`Invalid value X for NCCL_Y, using default Z.`"""

    value: str
    variable: str
    default: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAlgorithm(Event):
    """`Error : no algorithm/protocol available …`."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTruncated(Event):
    """`Message truncated : received 172 bytes instead of 64` in bootstrap: the two ends speak different versions."""

    received: int
    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionMismatch(Event):
    """`Mismatched NCCL version detected : rank 0 version 22105 rank 1 version 22602`."""

    rank: int
    version: int
    other_rank: int
    other_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerClosed(Event):
    """`Connection closed by remote peer host<port>`, `Call to recv from … failed : Connection reset by peer`."""

    peer: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectFailed(Event):
    """`Connect to 192.168.19.14<52822> failed : No route to host` and the lines that give up."""

    peer: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRetried(Event):
    """`connect to 10.0.0.2<40822> returned Connection refused, retrying (1/34)`: not yet a failure."""

    reason: str
    peer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OddCollective(Event):
    """`Rank 3 is running inconsistent collective: …`: who is told to differ, without what the others call."""

    odd_rank: int
    op: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionError(Event):
    """`Got completion from peer … with status=IBV_WC_RETRY_EXC_ERR(12) …`; `status` is ibv_wc_status."""

    status: int
    peer: str | None = None
    vendor_error: int | None = None
    hca: str | None = None
    request: str | None = None
    local_gid: str | None = None
    remote_gid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaFailure(Event):
    """`Cuda failure 'out of memory'`, `Cuda failure 2 'out of memory'`, `HIP failure: …`; `place` in the library."""

    reason: str
    place: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationFailed(Event):
    """`Failed to CUDA malloc 4194304 bytes`; `memory` is cuda or host."""

    memory: str
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemoryFailed(Event):
    """`Error: failed to extend /dev/shm/nccl-… to 33030532 bytes, error: No space left on device (28)`.

    `attaching` when the segment is another rank's, which that rank has made already.
    """

    segment: str | None = None
    size_bytes: int | None = None
    reason: str | None = None
    attaching: bool = False

    @property
    def malformed(self) -> bool:
        """Is it the name of no segment that NCCL makes: empty, or of no size?"""
        return self.segment is not None and (
            self.segment.endswith("/nccl-") or self.size_bytes == 0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class P2pDisabled(Event):
    """`P2P is disabled between [NVLINK] connected GPUs 0 and 1`; `nvlink` when the line says so."""

    first: int
    second: int
    nvlink: bool = False
