"""The work is done, and processes hang in destroy_process_group, abort or finalize.

Destroying a communicator waits for everything that still holds it. A live CUDA graph with captured collectives is the
classic reason: destroy the graph first. Others are collectives never waited for, and ranks that destroy at different
moments. One RAS answer that shows FINALIZE is a moment, not a hang.
"""

from collections.abc import Iterable

from nccldoctor.diagnose import places, standing
from nccldoctor.diagnose.diagnosis import Found, Sample
from nccldoctor.diagnose.words import some, who_ranks
from nccldoctor.model.events.nccl import CommGone
from nccldoctor.model.events.ras import RasSnapshot
from nccldoctor.model.events.torch import Stack, WatchdogTimeout
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.source import Line

code = "HANG06"
name = "destroy-hang"
severity = Severity.ERROR
needs = (Evidence.STACKS, Evidence.RAS, Evidence.OUTPUT)
explains = ("HANG05",)
look_first = True
confirm = (
    "py-spy dump --native --pid PID  # while it hangs: destroy_process_group above ncclCommDestroy or ncclCommAbort?",
)
remedy = (
    "del graph; torch.cuda.synchronize(); torch.distributed.destroy_process_group()  # CUDA graphs go first; costs nothing",
    "torch.cuda.synchronize(); torch.distributed.barrier()  # before destroy_process_group, on every rank; costs a moment at the end",
    "export TORCH_NCCL_ABORT_IN_DESTROY_PG=1  # until the reason is mended: aborts instead of waiting; costs calls that are still under way",
)
_DESTROYING = frozenset(
    {
        "destroy_process_group",
        "_abort_process_group",
        "ncclCommDestroy",
        "ncclCommAbort",
        "_shutdown_backend",
    }
)


def check(job: Job) -> Iterable[Found]:
    """One finding: stacks inside destroy, RAS answers that agree, no communicator that got through."""
    inside = [s for s in job.events(Stack) if any(f.function in _DESTROYING for f in s.frames)]
    closing = _finalizing(job)
    if not inside and len(closing) < 2:
        return
    if job.communicators and all(standing.finished(c) for c in job.communicators):
        return
    if any(e.how == "Abort" for e in job.events(CommGone)) or job.events(WatchdogTimeout):
        return
    ranks = job.ranks_of(inside)
    at = some(sorted({places.spot(f) for s in inside if (f := places.user_frame(s.frames))}))
    both = bool(inside) and bool(closing)
    where = f" at {at}" if at else ""
    yield Found(
        title=(
            f"{who_ranks(ranks, job.hosts_of(inside), 'All ranks')} hang{'s' * (len(ranks) == 1)} in "
            f"destroy_process_group{where}, the work being done"
        ),
        evidence=tuple(dict.fromkeys([*(s.line for s in inside[:3]), *closing[:2]])),
        confidence=Confidence.HIGH if both else Confidence.MEDIUM,
        ranks=ranks,
        hosts=job.hosts_of(inside),
        explanation=(
            ("RAS shows the communicator in FINALIZE and no rank behind. " if closing else "")
            + "Something still holds the communicator: most often a live CUDA graph that captured collectives, which "
            "must be destroyed before; else a collective that was never waited for."
        ),
    )


def _finalizing(job: Job) -> list[Line]:
    """Lines of RAS answers in which every rank of a communicator is in finalize and all counts agree."""
    found = []
    for snapshot in job.events(RasSnapshot):
        for comm in snapshot.communicators:
            if comm.ranks and not comm.mismatch and all(r.finalizing for r in comm.ranks):
                found.append(comm.line or snapshot.line)
        found += [g.line for g in snapshot.groups if g.status == "FINALIZE" and g.errors == "OK"]
    return found


fires_on = {"a live CUDA graph": Sample("2.28.9-cudagraph")}
silent_on = {
    "a healthy end": Sample("2.28.9-slow-rank"),
    "a rank behind": Sample("2.28.9-nodes4-skip"),
}
