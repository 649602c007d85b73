"""What a report without a finding says: healthy only where the evidence shows that the job worked, else unknown, and why."""

from collections.abc import Sequence

from nccldoctor.diagnose import places, standing
from nccldoctor.diagnose.words import ranges
from nccldoctor.model.event import Event
from nccldoctor.model.events import fabric, trouble
from nccldoctor.model.events.nccl import CommComplete, Version
from nccldoctor.model.events.torch import ProcessEnded, StoreLost
from nccldoctor.model.events.trouble import Warned
from nccldoctor.model.evidence import TURN_ON
from nccldoctor.model.finding import Confidence, Finding
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.report import Status, Verdict

HANGS = ("HANG", "COLL", "INIT01", "INIT10")
"""Codes, or beginnings of codes, of what makes a job stand still."""

_LOG_MORE = TURN_ON[Evidence.NCCL_LOG]
_RUN = "nccldoctor run train.py"


def unproved(findings: Sequence[Finding]) -> Verdict | None:
    """What might be a hang or a log that ends early is neither a fault nor health."""
    for note in findings:
        if note.code.startswith(HANGS) and note.confidence is Confidence.LOW:
            return Verdict(
                status=Status.UNKNOWN,
                headline=f"No fault is proved. {note.title}",
                confidence=Confidence.LOW,
                next=note.remedy[:3],
            )
    return None


def verdict(jobs: Sequence[Job]) -> Verdict:
    """The verdict where there is no finding above a note."""
    return (
        _nothing(jobs)
        or _warned(jobs)
        or _starting(jobs)
        or _under_way(jobs)
        or _uneven(jobs)
        or _healthy(jobs)
        or _unknown(
            f"No fault found, but the evidence of {_ranks(jobs)} is too thin to call it healthy",
            _LOG_MORE,
            _RUN,
        )
    )


def _unknown(headline: str, *steps: str) -> Verdict:
    return Verdict(status=Status.UNKNOWN, headline=headline, next=steps)


def _nothing(jobs: Sequence[Job]) -> Verdict | None:
    """The files hold no job, or no more of it than NCCL's version."""
    measured = any(job.has(Evidence.BANDWIDTH) for job in jobs)
    if any(job.evidence for job in jobs) and (measured or any(job.processes for job in jobs)):
        return None
    ran = sorted({event.version for job in jobs for event in job.events(Version)})
    if ran and not any(job.events(Warned) for job in jobs):
        return _unknown(
            f"NCCL {', '.join(ran)} ran and warned of nothing, but at this log level it tells no more",
            _LOG_MORE,
        )
    if any(job.has(Evidence.HOST_STATE, Evidence.KERNEL) for job in jobs):
        return _unknown(
            "These files tell of a machine, in which no fault is found, and of no job on it",
            "nccldoctor probe --quick",
            "nccldoctor parse FOLDER-WITH-LOGS",
        )
    if complaint := next((e for job in jobs for e in job.all_events() if _complains(e)), None):
        return _unknown(
            f"Too little of the job is here to tell a fault: {complaint.line.text.strip()[:200]}",
            _LOG_MORE,
        )
    if any(job.has(Evidence.NCCL_LOG) for job in jobs):
        return _unknown(
            "NCCL's lines in these files warn of nothing, and do not tell which ranks there are",
            _LOG_MORE,
        )
    return _unknown(
        "Nothing in these files tells of an NCCL or PyTorch-distributed job",
        _RUN,
        "nccldoctor parse FOLDER-WITH-LOGS",
    )


def _warned(jobs: Sequence[Job]) -> Verdict | None:
    warned = _unanswered(jobs)
    if warned is None:
        return None
    return Verdict(
        status=Status.UNKNOWN,
        headline=f"NCCL warns, and nothing tells whether the job went on: {warned.message[:200]}",
        confidence=Confidence.LOW,
        next=(_LOG_MORE,),
    )


def _starting(jobs: Sequence[Job]) -> Verdict | None:
    if _ended(jobs) or not _still_starting(jobs):
        return None
    return _unknown(
        f"No fault found, but no communicator comes up in the evidence of {_ranks(jobs)}: it ends during start-up",
        "nccldoctor watch --pid PID  # does it still wait? the stacks tell where",
        _RUN,
    )


def _under_way(jobs: Sequence[Job]) -> Verdict | None:
    pending = () if _ended(jobs) else _pending(jobs)
    if not pending:
        return None
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
            "give nccldoctor the dumps of all ranks: the rank that has none is often the culprit",
        ),
    )


def _uneven(jobs: Sequence[Job]) -> Verdict | None:
    """Call lines of some ranks end before those of others: no proof of anything, and no health."""
    if _ended(jobs):
        return None
    waits = [
        (job, wait)
        for job in jobs
        for wait in standing.waits(job)
        if any(wait.communicator.members[r].stage != "destroyed" for r in wait.waiting)
    ]
    if not waits:
        return None
    job, wait = max(waits, key=lambda found: len(found[1].waiting))
    behind = places.name(job, wait.communicator, wait.behind)
    return Verdict(
        status=Status.UNKNOWN,
        headline=(
            f"No fault is proved, but the calls of {behind[:1].lower()}{behind[1:]} end before those of others of "
            f"{wait.communicator.name}: cut, copied while the job ran, or hung"
        ),
        confidence=Confidence.LOW,
        ranks=places.shown_ranks(wait.communicator, wait.behind),
        next=(TURN_ON[Evidence.RAS], TURN_ON[Evidence.STACKS]),
    )


def _healthy(jobs: Sequence[Job]) -> Verdict | None:
    enough = (Evidence.INFO_LOG, Evidence.RECORDER, Evidence.RAS, Evidence.BANDWIDTH)
    if not _ended(jobs) and not any(job.has(*enough) for job in jobs):
        return None
    processes = any(job.processes for job in jobs)
    where = f"the evidence of {_ranks(jobs)}" if processes else "what was measured"
    return Verdict(status=Status.HEALTHY, headline=f"No fault found in {where}")


def _complains(event: Event) -> bool:
    return isinstance(event, StoreLost) or type(event).__module__ in (
        trouble.__name__,
        fabric.__name__,
    )


def _ended(jobs: Sequence[Job]) -> bool:
    return any(job.events(ProcessEnded) for job in jobs)


def _ranks(jobs: Sequence[Job]) -> str:
    """`8 ranks on 4 hosts`."""
    ranks = sum(len(job.processes) for job in jobs)
    hosts = len({host.name for job in jobs for host in job.hosts})
    where = f" on {hosts} host{'s' * (hosts != 1)}" if hosts else ""
    return f"{ranks} rank{'s' * (ranks != 1)}{where}"


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
