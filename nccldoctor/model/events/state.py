"""What whole files say: flight-recorder dumps, RAS answers, host state, measured bandwidth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nccldoctor.model.calls import Call
from nccldoctor.model.event import Event
from nccldoctor.model.events.torch import StackFrame
from nccldoctor.model.source import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class RasRank:
    """One rank of a communicator as RAS sees it: launch counts per collective, no completion.

    Text answers tell host and pid of outliers only: "" and -1 stand for "not told". `launched` is keyed by NCCL's word;
    `Collective` is the one count of 2.24 and 2.25.
    """

    rank: int
    host: str
    pid: int
    device: int | None = None
    launched: Mapping[str, int] = field(default_factory=dict)
    init_state: int = 0
    async_error: int = 0
    finalizing: bool = False
    destroying: bool = False
    aborting: bool = False
    line: Line | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RasMissing:
    """A rank that did not answer RAS."""

    rank: int
    host: str | None = None
    pid: int | None = None
    considered_dead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RasComm:
    """One communicator of a RAS answer; `id` is `0x` and hexadecimal digits as in the log's commId (2.26+)."""

    id: str
    size: int
    ranks: tuple[RasRank, ...]
    missing: tuple[RasMissing, ...] = ()
    line: Line | None = None
    mismatch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RasGroup:
    """A row of the text answer's table: communicators that look alike, with their common status and errors."""

    number: int
    communicators: int
    size: int
    status: str
    errors: str
    line: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class RasSnapshot(Event):
    """One answer of NCCL RAS: a state at one moment, not yet a hang. `speaker.time` where the answer tells.

    `mended` when its JSON was not valid as NCCL wrote it.
    """

    nccl_version: str | None
    communicators: tuple[RasComm, ...]
    collection_timeouts: int = 0
    groups: tuple[RasGroup, ...] = ()
    mended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RasPeer(Event):
    """An event of RAS's monitor: `PEER_DEAD: Process 1524345 on node 172.16.64.245 managing GPU 1`."""

    event: str
    peer_host: str | None = None
    peer_pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderGroup:
    """A process group as a dump knows it: `name` is shared by its members; `ranks` are global."""

    name: str
    description: str
    ranks: tuple[int, ...]
    enqueued: int | None = None
    started: int | None = None
    completed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderEntry:
    """One recorded operation; `sequence` counts collectives of the group, `state` is scheduled, started or completed.

    `name` is the operation as PyTorch wrote it, without the backend (`_all_gather_base`, `all_reduce_barrier`).
    Times are seconds since 1970; None where the recorder has none (Gloo: always).
    """

    group: str
    sequence: int
    call: Call
    state: str
    backend: str
    retired: bool = False
    p2p_sequence: int | None = None
    created: float | None = None
    completed: float | None = None
    timeout_ms: int | None = None
    frames: tuple[StackFrame, ...] = ()
    input_sizes: tuple[tuple[int, ...], ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    name: str = ""
    p2p: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderDump(Event):
    """One rank's flight recorder. `speaker.rank` is the rank in the file's name, as PyTorch writes it.

    `entries` is a `RecorderLog` where a file was read: 2,000 of them take 80 kB, not 2 MB.
    """

    version: str
    library_version: str | None
    groups: tuple[RecorderGroup, ...]
    entries: Sequence[RecorderEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthRow(Event):
    """One measured collective: nccl-tests, the probe or Inspector. GB/s are 10^9 bytes a second.

    `op` is NCCL's word (AllReduce, AlltoAll, SendRecv). Of the probe also: `group` (world, half, host, rail, pair,
    single, lever), `variant` (async, graph, a lever's name), `members` (global ranks), `wrong_by_rank`, and
    `rank_us`: each rank's median time from its own entry, so that a late rank has the shortest.
    """

    op: str
    size_bytes: int
    time_us: float
    algorithm_gbytes_per_second: float
    bus_gbytes_per_second: float
    ranks: int | None = None
    wrong: int | None = None
    origin: str = "nccl-tests"
    datatype: str | None = None
    group: str = "world"
    variant: str = ""
    p95_us: float | None = None
    members: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    wrong_by_rank: Mapping[int, int] = field(default_factory=dict)
    rank_us: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFailure(Event):
    """A step of the probe that did not end in time (`stuck`) or whose rank died (`failed`); ranks are global.

    `step` is the collective, or `single 3` and `pair 2-3` of the isolation; `missing` never reached the step, or died.
    """

    step: str
    kind: str
    ranks: tuple[int, ...]
    missing: tuple[int, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeLever(Event):
    """One NCCL setting tried by `probe --levers`: `state` is ok, wrong, stuck, failed or `already so`.

    `variables` is what was set, nothing for the plain run; `layer` what is at fault when only the plain run fails.
    `bus_gbytes_per_second` is the best of all sizes, `smallest_us` the time of the smallest message.
    """

    name: str
    state: str
    variables: Mapping[str, str] = field(default_factory=dict)
    layer: str = ""
    bus_gbytes_per_second: float = 0.0
    smallest_us: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverTried(Event):
    """The job itself, run again by `run --fallback job` with one NCCL setting: 0 is the exit code of success.

    `layer` is what is at fault when the job goes through with it, `cost` what the setting costs while it stays.
    """

    name: str
    exit_code: int
    variables: Mapping[str, str] = field(default_factory=dict)
    layer: str = ""
    cost: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRank(Event):
    """Where one rank of the probe ran; `passed` tells whether its single-device test did (None: not made)."""

    rank: int
    host: str
    device: str
    bus_id: str | None = None
    passed: bool | None = None


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
class WorkerLost(Event):
    """Ray's word that a worker's process died; it does not know why."""

    lost_host: str | None = None
    lost_pid: int | None = None
    how: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnvironment(Event):
    """The distributed-training part of a process's environment, as nccldoctor saved it."""

    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemory(Event):
    """Size and free bytes of /dev/shm on a host, as nccldoctor saved them."""

    size_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedMemoryLimit(Event):
    """How much memory a process may lock, as nccldoctor saved it; None = without limit."""

    limit_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HangObserved(Event):
    """nccldoctor's watchdog took the job for hung: `state` is skewed, symmetric or init.

    `behind` are the global ranks whose counters are behind or that have not arrived; `quiet_seconds` without progress.
    """

    state: str
    quiet_seconds: float
    behind: tuple[int, ...] = ()
    ended_job: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted(Event):
    """Somebody ended the job by a signal while nccldoctor's watchdog saw nothing wrong."""

    signal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrumented(Event):
    """nccldoctor itself set these variables for the job; they are no choice of the user."""

    variables: Mapping[str, str]
