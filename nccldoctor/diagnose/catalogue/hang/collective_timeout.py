"""PyTorch's watchdog gave up on a collective.

A time-out names the messenger, not the culprit: the ranks that report it did enter the collective. It stands alone here
only where nothing tells who did not come. Where the call ran many times longer than its limit, the watchdog or the
whole process stood still (a paused machine, a debugger, the GIL).
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines, ranges
from nccldoctor.model.events.torch import (
    BackendError,
    CudaError,
    GlooError,
    GroupProgress,
    WatchdogTimeout,
)
from nccldoctor.model.events.trouble import ErrorReturned, PeerClosed, Warned
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "HANG04"
name = "collective-timeout"
severity = Severity.ERROR
needs = (Evidence.WATCHDOG, Evidence.OUTPUT)
explains = ("HANG06", "NET10")
look_first = True
confirm = (
    "export TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1  # then give nccldoctor all ranks' dumps: they name who did not come",
    "nccldoctor run train.py  # gathers dumps, RAS and stacks of all ranks when it hangs",
)
remedy = (
    "dist.init_process_group('nccl', timeout=timedelta(minutes=60))  # only if a step is legitimately that long; costs an hour until a real hang is noticed",
)
_MANY_TIMES = 4
_NO_COUNT = 1 << 63
"""A coalesced call has no count: PyTorch prints -1 without its sign."""
_TIMEOUT = "Timeout at NCCL work"


def check(job: Job) -> Iterable[Found]:
    """One finding for PyTorch's watchdog, one for Gloo."""
    timeouts = job.events(WatchdogTimeout)
    if timeouts:
        yield _watchdog(job, timeouts)
    elif stuck := _given_up(job):
        yield _alone(job, stuck)
    gloo = [e for e in job.events(GlooError) if e.kind == "timeout"]
    if gloo and not timeouts:
        ranks = job.ranks_of(gloo)
        yield Found(
            title=f"{_who(ranks)} gave up waiting in a Gloo operation: {gloo[0].message[:120]}",
            evidence=lines(gloo),
            confidence=Confidence.HIGH,
            ranks=ranks,
            hosts=job.hosts_of(gloo),
        )


def _watchdog(job: Job, timeouts: list[WatchdogTimeout]) -> Found:
    first = timeouts[0]
    ranks = job.ranks_of(timeouts)
    counted = first.elements_in is not None and first.elements_in < _NO_COUNT
    elements = f" of {first.elements_in} elements" if counted else ""
    longest = max(timeouts, key=lambda t: t.ran_ms / max(t.timeout_ms, 1))
    inner = sorted({t.group_rank for t in timeouts if t.group_rank is not None})
    somebody = f"Rank{'s' * (len(inner) != 1)} {ranges(inner)} of a group" if inner else "A rank"
    title = f"{_who(ranks) if ranks else somebody} timed out in {first.op}{elements} #{first.sequence} after {first.timeout_ms / 1000:.0f} s"
    explanation = (
        "The ranks that report it waited; the one that they waited for is another, or none."
    )
    if longest.ran_ms > _MANY_TIMES * longest.timeout_ms:
        title += f", having run for {longest.ran_ms / 1000:.0f} s"
        explanation += (
            " It ran many times longer than its limit, so the watchdog itself, or the whole process, stood still: "
            "a paused or swapping machine, a debugger, or the GIL held by another thread."
        )
    sequences = sorted({t.sequence for t in timeouts})
    if len(sequences) > 1:
        explanation += (
            f" Ranks report different sequence numbers: {', '.join(map(str, sequences[:6]))}."
        )
    return Found(
        title=title,
        evidence=lines(timeouts),
        ranks=ranks,
        hosts=job.hosts_of(timeouts),
        explanation=explanation,
        remedy=(*confirm, *remedy),
    )


def _given_up(job: Job) -> list[GroupProgress]:
    """Of the watchdog's message only the part with the counts is here, and nothing tells of another failure."""
    kinds = (BackendError, CudaError, ErrorReturned, PeerClosed, Warned)
    if any(isinstance(e, kinds) for e in job.all_events()):
        return []
    return [e for e in job.events(GroupProgress) if e.failed_sequence is not None]


def _alone(job: Job, stuck: list[GroupProgress]) -> Found:
    first = next((e for e in stuck if _TIMEOUT in e.line.text), stuck[0])
    ranks = job.ranks_of(stuck)
    group = f"process group {first.description or first.group or first.group_id}"
    what = "timed out" if _TIMEOUT in first.line.text else "failed or timed out"
    done = f"the last that it completed is {first.completed}" if first.completed >= 0 else ""
    return Found(
        title=(
            f"{_who(ranks)}: work {first.failed_sequence} of {group} {what}; "
            f"{done or 'it had completed none'}, the last that it queued {first.enqueued}"
        ),
        evidence=lines(stuck),
        confidence=Confidence.MEDIUM,
        ranks=ranks,
        hosts=job.hosts_of(stuck),
        remedy=(*confirm, *remedy),
    )


def _who(ranks: tuple[int, ...]) -> str:
    return f"Rank{'s' * (len(ranks) != 1)} {ranges(ranks)}" if ranks else "A rank"


fires_on = {
    "2.1+": (
        "[rank0]:[E1130 03:56:21.531759876 ProcessGroupNCCL.cpp:689] [Rank 0] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=20000) ran for "
        "20080 milliseconds before timing out."
    ),
    "2.6+, the counts alone": (
        "[rank7]:[E1130 03:56:21.167701534 ProcessGroupNCCL.cpp:2252] [PG ID 2 PG GUID 3 Rank 7]  failure detected by watchdog at "
        "work sequence id: 40 PG status: last enqueued work: 42, last completed work: 39"
    ),
    "Gloo": "RuntimeError: [/gloo/unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete",
}
silent_on = {"a step that is merely slow": "[rank0]: step 4 took 120 s, timeout is 600 s"}
