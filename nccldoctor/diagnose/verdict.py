"""The one sentence on top: status, who, where, why, and what to do next."""

from collections.abc import Sequence

from nccldoctor.diagnose.words import ranges
from nccldoctor.model.events.nccl import CommComplete, Version
from nccldoctor.model.events.state import HangObserved
from nccldoctor.model.events.torch import ProcessEnded
from nccldoctor.model.events.trouble import Warned
from nccldoctor.model.finding import Confidence, Finding, Severity
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.report import Status, Verdict

_HANGS = ("HANG", "COLL", "INIT01", "INIT10")
_WRONG_VALUES = "COLL06"


def decide(findings: Sequence[Finding], jobs: Sequence[Job]) -> Verdict:
    """The verdict over all jobs, from findings in their order of importance."""
    top = next((f for f in findings if f.severity is not Severity.NOTE), None)
    if (top is None or top.severity is Severity.WARNING) and (watched := _watched(jobs)):
        return watched
    if top is None:
        return _unproved(findings) or _silent(jobs)
    if top.severity is Severity.WARNING:
        status = Status.DEGRADED
    else:
        hung = top.code.startswith(_HANGS) and top.code != _WRONG_VALUES
        status = Status.HUNG if hung else Status.FAILED
    return Verdict(
        status=status,
        headline=top.title,
        code=top.code,
        confidence=top.confidence,
        ranks=top.ranks,
        hosts=top.hosts,
        next=top.remedy[:3],
    )


def _unproved(findings: Sequence[Finding]) -> Verdict | None:
    """What might be a hang or a log that ends early is neither a fault nor health."""
    for note in findings:
        if note.code.startswith(_HANGS) and note.confidence is Confidence.LOW:
            return Verdict(
                status=Status.UNKNOWN,
                headline=f"No fault is proved. {note.title}",
                confidence=Confidence.LOW,
                next=note.remedy[:3],
            )
    return None


def _pending(jobs: Sequence[Job]) -> tuple[int, ...]:
    """Global ranks with calls under way, where flight recorders are all that there is."""
    if any(job.evidence - {Evidence.RECORDER} for job in jobs):
        return ()
    late = [
        job.global_rank(lane.communicator, lane.rank)
        for job in jobs
        for lane in job.lanes
        if lane.completed is not None and lane.completed < lane.issued
    ]
    return tuple(sorted({rank for rank in late if rank is not None}))


def _silent(jobs: Sequence[Job]) -> Verdict:
    """No finding: healthy only where there is evidence that the job worked, else unknown."""
    processes = sum(len(job.processes) for job in jobs)
    measured = any(job.has(Evidence.BANDWIDTH) for job in jobs)
    if not any(job.evidence for job in jobs) or not (processes or measured):
        if ran := sorted({event.version for job in jobs for event in job.events(Version)}):
            return Verdict(
                status=Status.UNKNOWN,
                headline=f"NCCL {', '.join(ran)} ran and warned of nothing, but at this log level it tells no more",
                next=("export NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/tmp/nccl_debug_%h_%p.log",),
            )
        return Verdict(
            status=Status.UNKNOWN,
            headline="Nothing in these files tells of an NCCL or PyTorch-distributed job",
            next=("nccldoctor run train.py", "nccldoctor parse FOLDER-WITH-LOGS"),
        )
    if warned := _unanswered(jobs):
        return Verdict(
            status=Status.UNKNOWN,
            headline=f"NCCL warns, and nothing tells whether the job went on: {warned.message[:200]}",
            confidence=Confidence.LOW,
            next=("export NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/tmp/nccl_debug_%h_%p.log",),
        )
    hosts = len({host.name for job in jobs for host in job.hosts})
    where = f" on {hosts} host{'s' * (hosts != 1)}" if hosts else ""
    ranks = f"{processes} rank{'s' * (processes != 1)}{where}"
    ended = [event for job in jobs for event in job.events(ProcessEnded)]
    if not ended and _still_starting(jobs):
        return Verdict(
            status=Status.UNKNOWN,
            headline=f"No fault found, but no communicator comes up in the evidence of {ranks}: it ends during start-up",
            next=(
                "nccldoctor watch PID  # does it still wait? the stacks tell where",
                "nccldoctor run train.py",
            ),
        )
    if not ended and (pending := _pending(jobs)):
        return Verdict(
            status=Status.UNKNOWN,
            headline=(
                f"No fault is proved: rank{'s' * (len(pending) > 1)} {ranges(pending)} had calls under way when the "
                "flight recorder was written, and nothing tells whether they went on"
            ),
            confidence=Confidence.LOW,
            ranks=pending,
            next=(
                "give nccldoctor the ranks' stdout and stderr too: PyTorch's watchdog says why it wrote the dumps",
                "give nccldoctor the dumps of all ranks  # the rank that has none is often the culprit",
            ),
        )
    enough = (Evidence.INFO_LOG, Evidence.RECORDER, Evidence.RAS, Evidence.BANDWIDTH)
    if ended or any(job.has(*enough) for job in jobs):
        where = f"the evidence of {ranks}" if processes else "what was measured"
        return Verdict(status=Status.HEALTHY, headline=f"No fault found in {where}")
    return Verdict(
        status=Status.UNKNOWN,
        headline=f"No fault found, but the evidence of {ranks} is too thin to call it healthy",
        next=(
            "export NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/tmp/nccl_debug_%h_%p.log",
            "nccldoctor run train.py",
        ),
    )


def _unanswered(jobs: Sequence[Job]) -> Warned | None:
    """A warning that no diagnosis knows, in a process of which no sign of work follows."""
    for job in jobs:
        measured = job.has(Evidence.BANDWIDTH, Evidence.RECORDER, Evidence.RAS)
        done = {p.id for e in job.events(CommComplete) if (p := job.process_of(e))}
        for event in job.events(Warned):
            process = job.process_of(event)
            if event.level == "WARN" and not measured and process and process.id not in done:
                return event
    return None


def _still_starting(jobs: Sequence[Job]) -> bool:
    """Do logs tell of ranks that start, and of nothing that a rank does with a communicator?"""
    worked = (Evidence.RECORDER, Evidence.RAS, Evidence.BANDWIDTH, Evidence.CALLS)
    return not any(
        job.has(*worked) or job.events(CommComplete) or job.connections or job.lanes for job in jobs
    ) and any(job.has(Evidence.INFO_LOG) for job in jobs)


def _watched(jobs: Sequence[Job]) -> Verdict | None:
    """What nccldoctor saw with its own eyes stands, also where no diagnosis can tell why: a hang, a failed rank."""
    for hang in (event for job in jobs for event in job.events(HangObserved)):
        return Verdict(Status.HUNG, hang.line.text, confidence=Confidence.LOW, ranks=hang.behind)
    failed = [e for job in jobs for e in job.events(ProcessEnded) if e.exit_code]
    for end in sorted(failed, key=lambda e: not e.first):
        ranks = () if end.ended_rank is None else (end.ended_rank,)
        return Verdict(Status.FAILED, end.line.text, confidence=Confidence.LOW, ranks=ranks)
    return None
