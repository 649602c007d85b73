"""A process died, and with it the job: who was first, and how.

One death takes the others along: connections close, collectives wait, watchdogs abort, launchers send SIGTERM. Only
the first death counts. Signals name the killer: 9 is often the out-of-memory killer (kernel log, cgroup), 11 a crash in
native code, 6 an abort, 15 somebody's order. A rank that leaves nothing behind and no longer answers RAS was killed;
where RAS waited for it in vain until its own time-out, it is stopped, frozen or cut off. RAS also misses ranks that live,
when the way to them led over a dead one: one that told of a time-out or left a flight recorder is no dead rank.
Not a fault by itself: SIGTERM by the launcher after the first failure, and what watchdogs end after a time-out.
"""

import re
import signal
from collections.abc import Iterable, Sequence

from nccldoctor.diagnose import places, standing
from nccldoctor.diagnose.diagnosis import Found, Sample, told_by
from nccldoctor.diagnose.words import lines, who, who_ranks
from nccldoctor.model.events.machine import OomKilled
from nccldoctor.model.events.ras import RasMissing, RasPeer, RasSnapshot
from nccldoctor.model.events.recorder import RecorderDump
from nccldoctor.model.events.torch import (
    BackendError,
    FingerprintMismatch,
    ProcessEnded,
    PythonException,
    WatchdogTimeout,
    WorkerLost,
)
from nccldoctor.model.events.usage import FatalSignal
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job, Origin
from nccldoctor.model.source import Kind

code = "CRASH01"
name = "rank-died"
severity = Severity.ERROR
needs = (Evidence.LAUNCHER, Evidence.OUTPUT, Evidence.RAS, Evidence.KERNEL)
explains = (
    "HANG01",
    "HANG02",
    "HANG04",
    "HANG05",
    "HANG06",
    "NET10",
    "INIT01",
    "INIT03",
    "INIT10",
)
look_first = True
confirm = (
    "dmesg -T | grep -i -E 'killed process|oom|segfault|Xid'  # on the named host, at the time of death",
    "torchrun --redirects 3 --log-dir logs …  # keeps each rank's own last words for the next time",
)
remedy = (
    "python -X faulthandler train.py  # shows the Python line of a crash in native code; costs nothing measurable",
    "torchrun --max-restarts=3 …  # together with checkpoints, while the cause is being looked for; costs the steps since the last one",
)
_FOLLOWS = re.compile(
    r"closed by peer|reset by peer|broken pipe|NCCL error|communicator was aborted|imed out|"
    r"Detected mismatch|CUDA error|out of memory|socket|store|rendezvous|monitoredBarrier",
    re.I,
)
_OF_A_JOB = (".nccl", ".torch", ".trouble", ".fabric", ".usage")
"""Modules of the events that NCCL and PyTorch print in a rank."""
_LIBRARY = re.compile(r"/(?:torch|lightning|accelerate|deepspeed|megatron|ray|transformers)/")
_TORCHRUN = re.compile(r"/attempt_\d+/\d+/std(?:err|out)\.log$")
"""Where torchrun writes a rank's streams."""
_LAUNCHER = ("ChildFailedError", "SignalException", "KeyboardInterrupt", "SystemExit")
_BACKEND = ("DistBackendError", "DistNetworkError", "DistStoreError", "AcceleratorError")


def check(job: Job) -> Iterable[Found]:
    """What the launcher says, else an exception of the program's own, else a rank that RAS cannot reach."""
    ended = [e for e in job.events(ProcessEnded) if e.exit_code and not e.by_launcher]
    own = _of_ranks(job, [e for e in job.events(PythonException) if is_own(e)])
    if ended:
        yield _ended(job, ended, own)
    elif own:
        yield _raised(job, own)
    elif lost := job.events(WorkerLost):
        yield _lost(job, lost)
    elif struck := _struck_down(job):
        yield _struck(job, struck)
    else:
        yield from _unreachable(job)


def _struck_down(job: Job) -> list[FatalSignal]:
    """Faults that are told of; an abort after NCCL's error is how C++ ends a program that does not catch it."""
    caught = bool(job.events(BackendError))
    return [
        e
        for e in job.events(FatalSignal)
        if e.library is None and not (caught and e.signal == signal.SIGABRT)
    ]


def _struck(job: Job, struck: Sequence[FatalSignal]) -> Found:
    """A fault in native code that no launcher tells of; a bus error is mostly a /dev/shm that is full."""
    first = struck[0]
    try:
        sent = signal.Signals(first.signal).name
    except ValueError:
        sent = f"signal {first.signal}"
    pid = f" (pid {first.fallen_pid})" if first.fallen_pid is not None else ""
    full = sent == "SIGBUS"
    ranks = job.ranks_of([first])
    hosts = job.hosts_of([first]) or ((first.fallen_host,) if first.fallen_host else ())
    return Found(
        title=f"{who_ranks(ranks, hosts, 'A process')}{pid} died of {sent}"
        + (": mostly a shared-memory file that found no room" if full else ""),
        evidence=lines(struck),
        confidence=Confidence.MEDIUM,
        ranks=ranks,
        hosts=hosts,
        remedy=("df -h /dev/shm  # full? then docker run --shm-size=16g …", *confirm)
        if full
        else (),
    )


def _lost(job: Job, lost: Sequence[WorkerLost]) -> Found:
    first = next((e for e in lost if e.lost_pid is not None), lost[0])
    ranks = [p.rank for p in job.processes if p.pid == first.lost_pid and p.rank is not None]
    pid = f" (pid {first.lost_pid})" if first.lost_pid is not None else ""
    hosts = [first.lost_host] if first.lost_host else []
    return Found(
        title=f"{who_ranks(ranks, hosts, 'A worker')}{pid} died, and Ray does not know why: often the out-of-memory killer or a fault in native code",
        evidence=lines([first, *lost]),
        confidence=Confidence.MEDIUM,
        ranks=tuple(ranks),
        hosts=tuple(hosts),
    )


def _of_ranks(job: Job, errors: Sequence[PythonException]) -> list[PythonException]:
    """Those that a rank printed: it is known which, or NCCL or PyTorch speaks around it.

    A bare traceback beside a job's evidence, or beside facts of a host, may be some tool's. Alone it is all there is.
    """
    talkative = {
        e.line.file
        for e in job.all_events()
        if type(e).__module__.endswith(_OF_A_JOB) and not isinstance(e, PythonException)
    }
    bare = not talkative and all(s.kind in (Kind.LOG, Kind.EMPTY) for s in job.sources)
    return [
        e
        for e in errors
        if bare
        or e.line.file in talkative
        or job.rank_of(e) is not None
        or job.process_of(e) is not None
        or e.speaker.local_rank is not None
        or _TORCHRUN.search(e.line.file)
        or any(_LIBRARY.search(frame.file) for frame in e.frames)
    ]


def is_own(error: PythonException) -> bool:
    """Is it the program's own, neither the launcher's nor what a failed peer or NCCL brings about?"""
    kind = error.type.rpartition(".")[2]
    return kind not in (*_LAUNCHER, *_BACKEND) and not _FOLLOWS.search(f"{kind}: {error.message}")


def _ended(job: Job, ended: Sequence[ProcessEnded], own: Sequence[PythonException]) -> Found:
    # nccldoctor's own notes (line 0) know all attempts; a launcher's table tells of its last one.
    # Each host has a first one of its own: where one only followed (it lost its peer), another's counts.
    firsts = sorted(
        (e for e in ended if e.first),
        key=lambda e: (e.line.number > 0, _follows(job, e, own), e.ended_at or ""),
    )
    first = firsts[0] if firsts else min(ended, key=_order)
    rank = _rank_of(job, first)
    error = next((e for e in own if rank is None or job.rank_of(e) == rank), None)
    words = error or _any_error(job, rank)
    host = first.ended_host or (job.host_of_rank(rank) if rank is not None else None)
    local = first.ended_local_rank
    unknown = "A process" if local is None else f"Local rank {local}"
    named = who_ranks([rank] if rank is not None else [], [host] if host else [], unknown)
    pid = f" (pid {first.ended_pid})" if first.ended_pid is not None else ""
    return Found(
        title=f"{named}{pid} {_how(job, first)}{_last_words(words)}",
        evidence=(first.line, *((words.line,) if words is not None else ())),
        ranks=(rank,) if rank is not None else (),
        hosts=(host,) if host else (),
        consequence=_follows(job, first, own),
    )


def _rank_of(job: Job, end: ProcessEnded) -> int | None:
    if end.ended_rank is None and end.ended_pid is not None:
        return next((p.rank for p in job.processes if p.pid == end.ended_pid), None)
    return end.ended_rank


def _follows(job: Job, end: ProcessEnded, own: Sequence[PythonException]) -> bool:
    """Did this process end because of what a peer, NCCL or the watchdog did?"""
    rank = _rank_of(job, end)
    if any(rank is None or job.rank_of(e) == rank for e in own):
        return False
    return _any_error(job, rank) is not None or _by_watchdog(job, end) or _by_error(job, end)


def _order(event: ProcessEnded) -> tuple[bool, float, int]:
    time = event.speaker.time
    return (
        event.exit_code == -signal.SIGTERM,
        time.timestamp() if time is not None else 0.0,
        event.line.number,
    )


def _by_watchdog(job: Job, ended: ProcessEnded) -> bool:
    """An abort after a time-out of the same job is the watchdog's doing."""
    return ended.exit_code in (-signal.SIGABRT, 134) and bool(job.events(WatchdogTimeout))


def _by_error(job: Job, ended: ProcessEnded) -> bool:
    """NCCL's error ends a program that does not catch it with exit code 1 or an abort."""
    return ended.exit_code in (1, -signal.SIGABRT, 134) and bool(job.events(BackendError))


def _any_error(job: Job, rank: int | None) -> PythonException | None:
    found = [e for e in job.events(PythonException) if rank is not None and job.rank_of(e) == rank]
    return found[-1] if found else None


def _how(job: Job, ended: ProcessEnded) -> str:
    number = -ended.exit_code if ended.exit_code < 0 else ended.exit_code - 128
    if ended.exit_code < 0 or number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT):
        try:
            sent = signal.Signals(number).name
        except ValueError:
            sent = f"signal {number}"
        killed = [e.killed_pid for e in job.events(OomKilled)]
        why = " by the out-of-memory killer" if ended.ended_pid in killed and killed else ""
        return f"died of {sent}{why}"
    return f"ended with exit code {ended.exit_code}"


def _last_words(error: PythonException | None) -> str:
    if error is None:
        return ""
    frame = places.user_frame(error.frames)
    at = f" at {places.spot(frame)}" if frame is not None else ""
    kind = error.type.rpartition(".")[2]
    message = f": {error.message[:160]}" if error.message else ""
    return f" after {kind}{at}{message}"


def _raised(job: Job, own: Sequence[PythonException]) -> Found:
    first = min(own, key=lambda e: e.speaker.time.timestamp() if e.speaker.time else 0.0)
    same = [e for e in own if (e.type, e.message) == (first.type, first.message)]
    frame = places.user_frame(first.frames)
    at = f" at {places.spot(frame)}" if frame is not None else ""
    prefixed = any(e.speaker.rank is not None for e in same)
    return told_by(
        job,
        same,
        f"{who(job, same, 'A process')} raised {first.type.rpartition('.')[2]}{at}: {first.message[:200]}",
        confidence=Confidence.HIGH if prefixed else Confidence.MEDIUM,
        consequence=bool(job.events(FingerprintMismatch)),
    )


def _unreachable(job: Job) -> Iterable[Found]:
    """Ranks that RAS misses, and processes that its monitor calls dead."""
    alive, behind = _alive(job), _behind(job)
    for snapshot in reversed(job.events(RasSnapshot)):
        for comm in snapshot.communicators:
            known = {c.id: c for c in job.communicators}.get(comm.id)
            if not comm.missing or known is None or len(comm.missing) * 2 > comm.size:
                continue
            absent = [
                m
                for m in comm.missing
                if m.rank < known.size and known.members[m.rank].global_rank not in alive
            ]
            if not absent or any(known.members[m.rank].stage == "destroyed" for m in absent):
                continue
            ranks = [m.rank for m in absent]
            silent = bool(snapshot.collection_timeouts)
            what = "stopped, frozen or cut off" if silent else "gone or cut off"
            yield Found(
                title=(
                    f"{places.name(job, known, ranks)} no longer answer{'s' * (len(ranks) == 1)} RAS, while others of "
                    f"{known.name} wait: the process is {what}{_dead(absent)}"
                ),
                evidence=(comm.line or snapshot.line,),
                confidence=Confidence.MEDIUM,
                consequence=(silent and bool(behind or job.events(RecorderDump)))
                or bool(behind and behind != {known.members[r].global_rank for r in ranks}),
                ranks=places.shown_ranks(known, ranks),
                hosts=places.hosts(job, known, ranks),
            )
            return
    for peer in job.events(RasPeer):
        if peer.event == "PEER_DEAD" and peer.peer_pid is not None:
            found = [p for p in job.processes if p.pid == peer.peer_pid]
            ranks = [p.rank for p in found if p.rank is not None]
            hosts = [p.host for p in found if p.host] or [peer.peer_host or ""]
            yield Found(
                title=(
                    f"{who_ranks(ranks, [h for h in hosts if h], 'A process')} (pid {peer.peer_pid}) is dead by RAS's "
                    "monitor"
                ),
                evidence=(peer.line,),
                confidence=Confidence.MEDIUM,
                ranks=tuple(ranks),
                hosts=tuple(h for h in hosts if h),
            )
            return


def _alive(job: Job) -> set[int]:
    """Global ranks that told of a time-out, or wrote their flight recorder when one struck."""
    told = [*job.events(WatchdogTimeout), *job.events(RecorderDump)]
    return {rank for e in told if (rank := job.rank_of(e)) is not None}


def _behind(job: Job) -> set[int]:
    """Global ranks that keep others waiting, by what the ranks themselves recorded."""
    waits = [w for w in standing.waits(job) if w.agreeing != (Origin.RAS,)]
    found = {w.communicator.members[r].global_rank for w in waits for r in w.behind}
    return {rank for rank in found if rank is not None}


def _dead(missing: Sequence[RasMissing]) -> str:
    return ", and RAS considers it dead" if any(m.considered_dead for m in missing) else ""


fires_on = {
    "an exception of the program": (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/home/user/train.py", line 92, in step\n'
        "[rank1]:     loss = model(batch)\n"
        "[rank1]: ValueError: bad batch\n"
    ),
    "RAS misses a rank": Sample("2.28.9-rank-killed"),
}
silent_on = {
    "a tool's traceback beside facts of a host": Sample("host-h200"),
    "NCCL's own complaint": (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/home/user/train.py", line 92, in step\n'
        "[rank1]: torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:93, invalid usage "
        "(run with NCCL_DEBUG=WARN for details), NCCL version 2.28.9\n"
    ),
    "a rank behind": Sample("2.28.9-nodes4-skip"),
}
