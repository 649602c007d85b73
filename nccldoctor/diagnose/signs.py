"""Which signs of known bugs a job shows: each sign is found in events, and gives them as proof."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from nccldoctor.diagnose.settings import named, number
from nccldoctor.model.event import Event
from nccldoctor.model.events.fabric import DeviceUnusable, VerbFailed
from nccldoctor.model.events.gpus import GpuState
from nccldoctor.model.events.measured import BandwidthRow
from nccldoctor.model.events.nccl import (
    CommComplete,
    CommGone,
    CommShape,
    CommStart,
    Edge,
    NetworkChosen,
    TopologyLine,
)
from nccldoctor.model.events.ras import RasComm, RasSnapshot
from nccldoctor.model.events.recorder import RecorderDump
from nccldoctor.model.events.torch import (
    CudaError,
    GroupProgress,
    ProcessEnded,
    Stack,
    WatchdogStuck,
    WatchdogTimeout,
)
from nccldoctor.model.events.trouble import CompletionError, CudaFailure, PeerClosed
from nccldoctor.model.events.usage import FatalSignal, NativeFrame
from nccldoctor.model.events.watched import HangObserved
from nccldoctor.model.job import Job

Proof = Sequence[Event]
_SEGFAULT = (11, 7)
_P2P = ("SEND", "RECV", "ALLTOALL", "COALESCED")


def proof(job: Job, sign: str) -> Proof:
    """The events that show this sign; empty when it is not there. `sign` is a word, or word:argument."""
    word, _, argument = sign.partition(":")
    for bound in (">=", "=="):
        if word.startswith(f"size{bound}"):
            return _size(job, bound, int(word[len("size") + 2 :]))
    if word in _WITH_ARGUMENT:
        return _WITH_ARGUMENT[word](job, argument)
    return _PLAIN[word](job)


def _hang(job: Job) -> Proof:
    return [*job.events(WatchdogTimeout), *job.events(HangObserved), *job.events(WatchdogStuck)]


def _hang_in_p2p(job: Job) -> Proof:
    return [e for e in job.events(WatchdogTimeout) if e.op.upper().startswith(_P2P)]


def _init_unfinished(job: Job) -> Proof:
    done = {(e.speaker.host, e.speaker.pid, e.comm) for e in job.events(CommComplete)}
    return [
        e
        for e in job.events(CommStart)
        if (e.speaker.host, e.speaker.pid, e.comm) not in done and e.nranks > 1
    ]


def _uneven_hosts(job: Job) -> Proof:
    starts = {(e.speaker.host, e.speaker.pid): e for e in job.events(CommStart) if e.comm_id}
    per_host = Counter(host for host, _ in starts)
    return list(starts.values())[:2] if len(set(per_host.values())) > 1 else []


def _one_rank_a_host(job: Job) -> Proof:
    starts = {(e.speaker.host, e.speaker.pid): e for e in job.events(CommComplete)}
    per_host = Counter(host for host, _ in starts)
    return list(starts.values())[:2] if len(per_host) > 1 and max(per_host.values()) == 1 else []


def _segfault(job: Job) -> Proof:
    ended = [e for e in job.events(ProcessEnded) if e.exit_code in (-11, 139)]
    return [*[e for e in job.events(FatalSignal) if e.signal in _SEGFAULT], *ended]


def _abort(job: Job) -> Proof:
    ended = [e for e in job.events(ProcessEnded) if e.exit_code in (-6, 134)]
    return [*[e for e in job.events(FatalSignal) if e.signal == 6], *ended]


def _abort_unfinished(job: Job) -> Proof:
    gone = [e for e in job.events(CommGone) if e.how == "Abort"]
    done = {(e.speaker.pid, e.comm) for e in gone if e.phase == "COMPLETE"}
    stuck: list[Event] = [
        e for e in gone if e.phase == "START" and (e.speaker.pid, e.comm) not in done
    ]
    stuck += [e for e in job.events(Stack) if any("ncclCommAbort" in f.function for f in e.frames)]
    return stuck


def _ras_level(job: Job) -> Proof:
    """RAS answered, no rank is missing, and on each communicator all ranks have launched the same."""
    answers = job.events(RasSnapshot)
    for comm in (c for a in answers for c in a.communicators):
        if comm.missing or len({tuple(sorted(r.launched.items())) for r in comm.ranks}) > 1:
            return []
    return answers


def _ras_minority_ahead(job: Job) -> Proof:
    """On a communicator out of step, the ranks that RAS lists, the fewest, have launched more than the others."""
    return [
        a for a in job.events(RasSnapshot) if any(_lists_those_ahead(c) for c in a.communicators)
    ]


def _lists_those_ahead(comm: RasComm) -> bool:
    for op in {op for rank in comm.ranks for op in rank.launched}:
        counts = Counter(rank.launched.get(op, 0) for rank in comm.ranks)
        (usual, many), *others = counts.most_common()
        if others and many > sum(n for _, n in others) and all(c > usual for c, _ in others):
            return comm.mismatch
    return False


def _watchdog_rank_stale(job: Job) -> Proof:
    """A time-out whose `[Rank N]` is the process's rank in none of the groups that its other lines tell of."""
    ranks: dict[int, set[int]] = {}
    for progress in job.events(GroupProgress):
        if (process := job.process_of(progress)) is not None:
            ranks.setdefault(process.id, set()).add(progress.group_rank)
    return [
        e
        for e in job.events(WatchdogTimeout)
        if (p := job.process_of(e)) is not None
        and p.id in ranks
        and e.group_rank not in ranks[p.id]
    ]


def _dump_missing(job: Job) -> Proof:
    dumps = job.events(RecorderDump)
    return dumps[:2] if dumps and len(dumps) < (job.world_size or 0) else []


def _no_gdr(job: Job) -> Proof:
    across = [e for e in job.events(Edge) if e.transport == "NET" and e.detail.startswith("IB")]
    return [] if any("GDRDMA" in e.detail for e in across) else across


def _network_failed(job: Job) -> Proof:
    return [*job.events(CompletionError), *job.events(VerbFailed), *_hang(job)]


def _plugin(job: Job) -> Proof:
    return [e for e in job.events(NetworkChosen) if e.network not in ("IB", "Socket")]


def _environment(job: Job, argument: str) -> Proof:
    name, equals, value = argument.partition("=")
    return [s.event for s in named(job, name) if not equals or s.value == value]


def _environment_above(job: Job, name: str) -> Proof:
    return [s.event for s in named(job, name) if (number(s) or 0) > 1]


def _cuda(job: Job, argument: str) -> Proof:
    reason, _, place = argument.partition("@")
    failed: list[Event] = [e for e in job.events(CudaFailure) if reason in e.reason]
    if place:
        return [e for e in failed if place in e.line.text]
    return [*failed, *[e for e in job.events(CudaError) if reason in e.reason]]


def _frame(job: Job, part: str) -> Proof:
    native: list[Event] = [
        e for e in job.events(NativeFrame) if (e.function or "").startswith(part)
    ]
    return [
        *native,
        *[e for e in job.events(Stack) if any(f.function.startswith(part) for f in e.frames)],
    ]


def _size(job: Job, bound: str, size: int) -> Proof:
    return [
        e
        for e in job.events(CommStart)
        if (e.nranks >= size if bound == ">=" else e.nranks == size)
    ]


def _cumem_on(job: Job) -> Proof:
    off = [s for s in named(job, "NCCL_CUMEM_ENABLE") if s.value == "0"]
    return [] if off else [e for e in job.events(Edge) if "CUMEM" in e.detail]


def _grace(job: Job) -> Proof:
    """GPUs that sit on a Grace CPU: by name, or by the chip-to-chip link in NCCL's dump."""
    named_so: list[Event] = [
        g for g in job.events(GpuState) if g.name and any(w in g.name for w in _GRACE)
    ]
    return [*named_so, *[e for e in job.events(TopologyLine) if e.link == "C2C"]]


_GRACE = ("GH200", "GB200", "GB300")


_PLAIN: Mapping[str, Callable[[Job], Proof]] = {
    "hang": _hang,
    "hang-in-p2p": _hang_in_p2p,
    "init-unfinished": _init_unfinished,
    "uneven-hosts": _uneven_hosts,
    "one-rank-a-host": _one_rank_a_host,
    "segfault": _segfault,
    "abort": _abort,
    "abort-unfinished": _abort_unfinished,
    "ras": lambda job: job.events(RasSnapshot),
    "ras-level": _ras_level,
    "ras-minority-ahead": _ras_minority_ahead,
    "ras-json-mended": lambda job: [a for a in job.events(RasSnapshot) if a.mended],
    "watchdog": lambda job: job.events(WatchdogTimeout),
    "device-unusable": lambda job: job.events(DeviceUnusable),
    "mnnvl": lambda job: [e for e in job.events(CommShape) if e.mnnvl],
    "cumem-on": _cumem_on,
    "wrong-data": lambda job: [e for e in job.events(BandwidthRow) if e.wrong],
    "watchdog-rank-stale": _watchdog_rank_stale,
    "dump-missing": _dump_missing,
    "network-failed": _network_failed,
    "network-plugin": _plugin,
    "peer-closed": lambda job: job.events(PeerClosed),
    "no-gdr": _no_gdr,
    "grace": _grace,
    "pxn": lambda job: [e for e in job.events(Edge) if e.transport == "NET" and "(" in e.detail],
}

_WITH_ARGUMENT: Mapping[str, Callable[[Job, str], Proof]] = {
    "env": _environment,
    "env>1": _environment_above,
    "cuda": _cuda,
    "frame": _frame,
    "gpu": lambda job, name: [g for g in job.events(GpuState) if name in (g.name or "")],
    "network": lambda job, name: [e for e in job.events(NetworkChosen) if e.network == name],
    "transport": lambda job, name: [e for e in job.events(Edge) if e.transport == name],
}
