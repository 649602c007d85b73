"""What PyTorch, Gloo, Python and the launchers print."""

from dataclasses import dataclass

from nccldoctor.model.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogTimeout(Event):
    """`Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, …) ran for 20026 milliseconds …`.

    `group_rank` is the rank inside that process group, not the global one.
    """

    group_rank: int
    sequence: int
    op: str
    elements_in: int | None = None
    elements_out: int | None = None
    timeout_ms: int
    ran_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankHeard(Event):
    """The first line of a file that carries this rank's prefix, whatever it says: the rank was there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProgress(Event):
    """`… last enqueued work: 4, last completed work: 3`: how far this rank is on one process group.

    `group_id` counts groups on that rank, `group` is the name shared by its members; -1 = nothing yet.
    """

    group_rank: int
    enqueued: int
    completed: int
    group_id: int | None = None
    group: str | None = None
    description: str | None = None
    failed_sequence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpSignal(Event):
    """`Received a dump signal due to a collective timeout from this local rank|rank 5 …`; `origin` None = itself."""

    group_rank: int
    enqueued: int
    completed: int
    origin: int | None = None
    group_id: int | None = None
    group: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogStuck(Event):
    """`ProcessGroupNCCL's watchdog got stuck for 480 seconds …`, `Heartbeat monitor timed out!`."""

    seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FingerprintMismatch(Event):
    """`Detected mismatch between collectives on ranks. Rank 1 is running …, but Rank 0 is running …` (DETAIL)."""

    rank: int
    sequence: int | None
    op: str
    shape: str | None
    dtype: str | None
    other_rank: int
    other_sequence: int | None
    other_op: str
    other_shape: str | None
    other_dtype: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksNamed(Event):
    """PyTorch itself names who did not come: its desync report, or monitored_barrier; `named` as written, `3, 5`.

    `sequence` is the collective that they did not join; they count from 1.
    """

    by: str
    named: str
    sequence: int | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(sorted({int(r) for r in self.named.split(",") if r.strip()}))


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendError(Event):
    """`NCCL error in: FILE:LINE, invalid usage (run with …), NCCL version 2.28.9`, with NCCL's last words."""

    error: str
    nccl_version: str | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFrame:
    """One frame; `function` may be empty where the source does not tell."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack(Event):
    """Where a thread stands, innermost frame first; `origin` is faulthandler, py-spy, recorder or watchdog."""

    frames: tuple[StackFrame, ...]
    origin: str
    thread: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonException(Event):
    """The end of a traceback: type, message and the frames, innermost first."""

    type: str
    message: str
    frames: tuple[StackFrame, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTimeout(Event):
    """`Timed out after 9 seconds waiting for clients. 1/2 clients joined.`, store and rendezvous time-outs.

    `group` and `member` are from the key that was waited for: the number of a process group, and the rank inside it
    that should have written the key.
    """

    what: str
    joined: int | None = None
    expected: int | None = None
    address: str | None = None
    group: int | None = None
    member: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdAwaited(Event):
    """`[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] …`, and nobody had put it into the store.

    Both ranks count inside the group; `group` is its number, None for the default group or where it is not told.
    """

    group_rank: int
    root: int
    group: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLost(Event):
    """`Failed to recv, got 0 bytes`: the store's server, rank 0's process, is gone."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PortInUse(Event):
    """`The server socket has failed to listen … port: 29953 … EADDRINUSE`."""

    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnded(Event):
    """How a process ended, from a launcher, an agent or nccldoctor itself; a negative code is a signal.

    `first` when the source calls it the first failure; `by_launcher` when the launcher itself ended it.
    """

    exit_code: int
    ended_rank: int | None = None
    ended_local_rank: int | None = None
    ended_pid: int | None = None
    ended_host: str | None = None
    ended_at: str | None = None
    first: bool = False
    by_launcher: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GlooError(Event):
    """`Connection closed by peer …`, `Timed out waiting 6000ms for recv …`, `[enforce fail … ]`; `kind` names which."""

    kind: str
    peer: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopbackFallback(Event):
    """Gloo: `Unable to resolve hostname to a (local) address. Using the loopback address as fallback.`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaError(Event):
    """`CUDA error: out of memory`, an illegal access and the like, raised by PyTorch or the program.

    `group_rank` is the rank in a process group, where PyTorch's watchdog tells it.
    """

    reason: str
    group_rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDestroyed(Event):
    """`destroy_process_group() was not called before program exit`: noise after a crash, a hint at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendInUse(Event):
    """Which torch.distributed backend a job runs on, as lines of Gloo, NCCL or PyTorch give away."""

    backend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost(Event):
    """Ray's word that a worker's process died; it does not know why."""

    lost_host: str | None = None
    lost_pid: int | None = None
    how: str | None = None
