"""Some ranks of a communicator never came to its set-up, and the others wait for them.

ncclCommInitRank returns on no rank before all have called it. Who is missing is told by the lines of those who came:
`nranks` says how many there should be. The stage board names the last stage of each: bootstrap, Init START, graphs,
channels, Init COMPLETE. Logs that are merely cut, or of which some ranks' are not given, look alike: so nothing is said
when the communicator worked, and little when nothing else shows that it stands still.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath

from nccldoctor.diagnose import places, stuck
from nccldoctor.diagnose.awaited_id import without_id
from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.excerpts import begins_inside
from nccldoctor.diagnose.words import ranges
from nccldoctor.model.events.torch import Stack, StoreTimeout, WatchdogTimeout
from nccldoctor.model.events.trouble import ErrorReturned, PeerClosed, Warned
from nccldoctor.model.events.watched import HangObserved
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Communicator, Evidence, Job
from nccldoctor.model.source import Line

code = "INIT01"
name = "ranks-missing-at-init"
severity = Severity.ERROR
needs = (Evidence.INFO_LOG, Evidence.WATCHDOG, Evidence.OUTPUT)
explains = ("HANG04", "NET10", "LOG01", "INIT07", "CRASH01")
look_first = True
confirm = (
    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,NET torchrun …  # shows how far each rank gets",
    "ss -tnp | grep PORT; py-spy dump --pid PID  # on the hosts of the missing ranks: did the process start, where does it stand, does it reach rank 0's port?",
)
remedy = (
    "torchrun --redirects 3 --log-dir logs …  # keeps the missing rank's own last words (an import error, a full disk); costs disk space",
    "export NCCL_SOCKET_IFNAME=eth0  # where the missing ranks cannot reach rank 0's address: the interface that all hosts share (ip -br addr); costs nothing",
)
_AFTER_ALL_CAME = ("topology", "graphs", "channels")
"""Ranks compute these from what all ranks told each other in the bootstrap: then only logs are missing."""
_DONE = ("Init COMPLETE", "connected", "destroyed")


def check(job: Job) -> Iterable[Found]:
    """One finding: the largest communicator at whose set-up ranks are missing and which nobody completed."""
    for comm in sorted(job.communicators, key=lambda c: (-c.size, c.id)):
        stages = [m.stage for m in comm.members]
        started = [m for m in comm.members if m.stage is not None]
        missing = [m.rank for m in comm.members if m.stage is None]
        if not started or any(stage in _DONE for stage in stages):
            continue
        if missing and any(stage in _AFTER_ALL_CAME for stage in stages):
            continue
        if missing and _is_under_way(job, comm):
            continue
        if missing and (len(started) > 1 or _signs(job, comm)):
            yield _missing(job, comm, missing)
            return
        if not missing and len(set(stages)) > 1 and _timed_out(job):
            yield _lagging(job, comm)
            return
    yield from list(_watched(job)) or without_id(job)


def _is_under_way(job: Job, comm: Communicator) -> bool:
    """Have its ranks set up others before, and does nothing show a standstill? Then the log may simply end here."""
    here = {m.process for m in comm.members if m.process is not None}
    before = any(
        m.process in here and m.stage in _DONE
        for other in job.communicators
        if other.id != comm.id
        for m in other.members
    )
    return before and not any(sign.strong for sign in stuck.signs(job))


def _watched(job: Job) -> Iterable[Found]:
    """What `nccldoctor run` saw from outside, where no log tells: some ranks wait in the set-up, others never came."""
    for hang in job.events(HangObserved):
        if hang.state != "init" or not hang.behind:
            continue
        stands = [s for s in job.events(Stack) if s.speaker.rank in hang.behind]
        where = ""
        if len(hang.behind) == 1 and stands:
            frame = next((f for f in stands[0].frames if "/site-packages/" not in f.file), None)
            where = (
                f"; it stands at {PurePath(frame.file).name}:{frame.line} in {frame.function}"
                if frame
                else ""
            )
        yield Found(
            title=(
                f"Rank{'s' * (len(hang.behind) > 1)} {ranges(hang.behind)} never came to the set-up of the "
                f"process groups, in which the others have waited for {hang.quiet_seconds:.0f} s{where}"
            ),
            evidence=(hang.line, *(s.line for s in stands[:3])),
            confidence=Confidence.HIGH if stands else Confidence.MEDIUM,
            ranks=hang.behind,
            hosts=job.hosts_of_ranks(hang.behind),
        )
        return


def _signs(job: Job, comm: Communicator) -> list[Line]:
    """Lines that show that the set-up failed or waited, and did not merely go on after the log's end.

    NCCL also fails, harmlessly, at what it tries before: an error of a rank counts from its Init START on.
    """
    waited = [
        e.line for kind in (StoreTimeout, WatchdogTimeout, HangObserved) for e in job.events(kind)
    ]
    failed = [e.line for e in [*job.events(ErrorReturned), *job.events(PeerClosed)]]
    begun: dict[str, int] = {}
    for start in (m.start for m in comm.members if m.start is not None):
        begun[start.file] = min(start.number, begun.get(start.file, start.number))
    return waited + [e for e in failed if e.file in begun and e.number >= begun[e.file]]


def _timed_out(job: Job) -> bool:
    return bool(job.events(StoreTimeout) or job.events(WatchdogTimeout))


def _missing(job: Job, comm: Communicator, missing: list[int]) -> Found:
    present = [m for m in comm.members if m.stage is not None]
    signs = _signs(job, comm)
    warned = [e.line for e in job.events(Warned)][:1]
    excerpt = not signs and begins_inside(job)
    if job.partial or excerpt:
        confidence = Confidence.LOW
    else:
        confidence = Confidence.HIGH if signs else Confidence.MEDIUM
    heard, near = _heard(job, comm, missing)
    who = places.name(job, comm, missing)
    where = "its set-up" if comm.name in who else f"the set-up of {comm.name}"
    return Found(
        title=(
            f"{who} never came to {where}; "
            f"rank{'s' * (len(present) > 1)} {ranges(m.rank for m in present)} wait{'s' * (len(present) == 1)} in "
            f"{_board(comm)}{near}"
        ),
        evidence=tuple(
            dict.fromkeys(
                [*(m.start for m in present[:3] if m.start is not None), *signs[:2], *warned]
            )
        ),
        confidence=confidence,
        ranks=places.shown_ranks(comm, missing),
        hosts=places.hosts(job, comm, missing),
        explanation=(
            f"{heard}No rank leaves the set-up before all {comm.size} have come, and none has. "
            "If that rank's log is merely not among these files, this means nothing: then say --partial."
        ),
        severity=Severity.NOTE if excerpt else None,
    )


def _heard(job: Job, comm: Communicator, missing: list[int]) -> tuple[str, str]:
    """What is known of the missing ranks: a sentence, and the end of the title."""
    if any(p.rank in missing and p.files for p in job.processes):
        return "It wrote output, but no line of NCCL's set-up. ", ""
    seated = {m.process for c in job.communicators for m in c.members}
    strays = [p for p in job.processes if p.id not in seated and p.pid is not None]
    if strays and len(strays) <= len(missing):
        pids = ", ".join(f"pid {p.pid}" + (f" on {p.host}" if p.host else "") for p in strays[:4])
        return (
            f"{pids} wrote NCCL lines and came to no communicator. ",
            f"; {pids} did not get so far",
        )
    return "Nothing at all was heard of it. ", ""


def _lagging(job: Job, comm: Communicator) -> Found:
    stages = {m.rank: m.stage or "" for m in comm.members}
    counts = Counter(stages.values())
    rare = min(counts, key=lambda stage: (counts[stage], stage))
    late = [rank for rank, stage in sorted(stages.items()) if stage == rare]
    return Found(
        title=f"{places.name(job, comm, late)} stopped at {rare} in the set-up of {comm.name}: {_board(comm)}",
        evidence=tuple(m.start for m in comm.members if m.rank in late and m.start is not None)[:3],
        confidence=Confidence.LOW,
        ranks=places.shown_ranks(comm, late),
        hosts=places.hosts(job, comm, late),
    )


def _board(comm: Communicator) -> str:
    """`Init START`: the last stage of the ranks that came, with the ranks where they came to different ones."""
    by_stage: dict[str, list[int]] = {}
    for member in comm.members:
        if member.stage is not None:
            by_stage.setdefault(member.stage, []).append(member.rank)
    if len(by_stage) == 1:
        return next(iter(by_stage))
    return ", ".join(
        f"{stage} (rank{'s' * (len(ranks) > 1)} {ranges(ranks)})"
        for stage, ranks in by_stage.items()
    )


def _start(rank: int, stage: str = "START", nranks: int = 3) -> str:
    return (
        f"gpu-1:{70 + rank}:{70 + rank} [{rank}] NCCL INFO ncclCommInitRank comm 0x5{rank} rank {rank} nranks {nranks} "
        f"cudaDev {rank} nvmlDev {rank} busId {rank}0 commId 0xaa - Init {stage}\n"
    )


fires_on = {
    "2.16+": _start(0) + _start(1),
    "one came, and its set-up failed": (
        _start(0, nranks=2) + "gpu-1:70:70 [0] NCCL INFO init.cc:2545 (ncclCommInitRankDev) -> 6\n"
    ),
}
silent_on = {
    "cut out of the middle of a log": (
        "gpu-2:90:90 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.2<0>\n"
        "gpu-2:90:90 [1] NCCL INFO Using network IB\n" + _start(0) + _start(1)
    ),
    "an excerpt that ends in the set-up": _start(0) + _start(1) + _start(2),
    "logs of one host of a healthy job": _start(0)
    + _start(0, "COMPLETE")
    + _start(1)
    + _start(1, "COMPLETE"),
    "one rank's first lines": _start(0),
}
