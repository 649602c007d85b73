"""What NCCL says of InfiniBand, RoCE and sockets when they misbehave, beyond completions and closed connections."""

from dataclasses import dataclass

from nccldoctor.model.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbFailed(Event):
    """`Call to ibv_reg_mr failed with error Cannot allocate memory errno 12`: a verbs call that failed.

    `detail` is the rest of the line: device, GIDs, states of the queue pair.
    """

    call: str
    reason: str
    number: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbsMissing(Event):
    """`Failed to open libibverbs.so[.1]`: normal where no InfiniBand is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUnusable(Event):
    """`NET/IB : Unable to open device mlx5_0`."""

    device: str | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortEvent(Event):
    """`NET/IB : mlx5_0:1 Got async event : port error`; `fatal` when the line says so."""

    event: str
    device: str | None = None
    fatal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompatibleDevices(Event):
    """`NET/IB : Attempted to connect incompatible devices: …`: InfiniBand meets RoCE, or counts differ."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollnetUnavailable(Event):
    """`Cannot initialize CollNet, using point-to-point network instead`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesDisagree(Event):
    """NCCL's network noticed that the two ends of a transfer have different sizes."""

    message: str
    peer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LibfabricFailed(Event):
    """`NET/OFI Request 0x… completed with error. RC: 113. Error: 2 (UNDELIVERABLE).`: a transfer over libfabric."""

    reason: str
