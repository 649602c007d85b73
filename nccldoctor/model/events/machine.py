"""What kernel, driver and log collectors say of a machine and its GPUs."""

from dataclasses import dataclass

from nccldoctor.model.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLost(Event):
    """`GPU has fallen off the bus`, `GPU is lost`; `gpu` is its PCI address or index as the line has it."""

    gpu: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EccCounted(Event):
    """Memory errors that a driver, nvidia-smi or NCCL's own check counts; `kind` is uncorrected, corrected or remap."""

    kind: str
    subject: str
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NvlinkFault(Event):
    """Errors or inactive links of NVLink; `subject` is the GPU or the ranks, `fault` what the line says."""

    subject: str
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttled(Event):
    """A reason why a GPU's clocks are held down, as nvidia-smi names it."""

    reason: str
    gpu: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationFailed(Event):
    """`rank 3 failed to NET register …`: a buffer that NCCL wanted to register and could not; it copies instead."""

    how: str
    reporting_rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableShown(Event):
    """`NCCL_DEBUG=INFO`: a variable as `env`, `export` or `set -x` shows it in a job's output."""

    variable: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesLost(Event):
    """`[repeated 7x across cluster]`, `Suppressed 12 messages`: a collector left lines out."""

    collector: str
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectTimed(Event):
    """`timings: rank 0 nranks 64 P2P connect done in 2.41`: seconds that connecting took at a first send or receive."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid(Event):
    """`NVRM: Xid (PCI:0000:c1:00): 79, …` of the kernel log, or an SXid of NVSwitch."""

    number: int
    bus_id: str
    text: str
    switch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OomKilled(Event):
    """The kernel's or the container runtime's out-of-memory killer ended a process."""

    killed_pid: int | None = None
    process_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory(Event):
    """Size and free bytes of /dev/shm on a host, as nccldoctor saved them."""

    size_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedMemoryLimit(Event):
    """How much memory a process may lock, as nccldoctor saved it; None = without limit."""

    limit_bytes: int | None
