"""NCCL failed and no diagnosis knows its words; they are shown as they are.

A call that fails logs one WARN with the reason and then the way out, `file.cc:123 -> 2`; PyTorch raises an exception with
the kind of the error and, since NCCL 2.13, NCCL's last words. This diagnosis is tried only where no other finds an error,
so that a failure which nobody has described yet is not taken for health.
Not a fault: a WARN that nothing follows and after which the communicator is built; an error that other ranks did without,
where this one's log ends.
"""

from collections.abc import Iterable, Sequence

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import CommComplete, CommStart, NetworkChosen
from nccldoctor.model.events.torch import BackendError
from nccldoctor.model.events.trouble import QUOTED, CudaFailure, ErrorReturned, Warned
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "CRASH04"
name = "library-call-failed"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "NET10", "HANG04", "CRASH01")
last_resort = True
look_first = True
confirm = (
    "export NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/tmp/nccl_debug_%h_%p.log  # all ranks, then run again: the first WARN has the reason; search its words in https://github.com/NVIDIA/nccl/issues",
)
remedy = (
    "nccldoctor run --fallback probe train.py  # tries one setting at a time and names the layer at fault; costs one short run each",
)
_RESULTS = {
    1: "unhandled CUDA error",
    2: "unhandled system error",
    3: "internal error",
    4: "invalid argument",
    5: "invalid usage",
    6: "remote error",
}


def check(job: Job) -> Iterable[Found]:
    """One finding: the first failing process's warning, else the exception's kind."""
    warned = [e for e in job.events(Warned) if e.level in ("WARN", "ERROR")]
    tried = {e.place for e in job.events(ErrorReturned) if _went_on(job, e)}
    returned = [e for e in job.events(ErrorReturned) if e.place not in tried]
    failed = {p.id for e in returned if (p := job.process_of(e))}
    fatal = [e for e in warned if (p := job.process_of(e)) and p.id in failed]
    errors = job.events(BackendError)
    cuda = [e.reason for e in job.events(CudaFailure)]
    alone = _climbs(returned) and not job.events(CommComplete)
    if not fatal and not errors and not alone:
        return
    first: Event
    if fatal:
        first, why = fatal[0], fatal[0].message[:200]
    elif errors:
        quoted = [e for e in warned if e.place == QUOTED] or warned
        last = quoted[0].message[:200] if quoted else _cuda(cuda)
        first, why = errors[0], last or f"{errors[0].error}, and the log does not say why"
    else:
        first, why = returned[0], _RESULTS.get(returned[0].result, "an error")
        why += f" at {returned[0].place}"
        why += f": {_cuda(cuda)}" if cuda else ", and the log does not say why"
    same = [e for e in (*fatal, *errors, *returned) if type(e) is type(first)]
    yield told_by(
        job,
        same[:1],
        f"{who(job, same[:1], 'NCCL in a rank')}: NCCL failed: {why}",
        evidence=lines([first, *warned[:1], *errors[:1], *returned[:1]]),
        confidence=Confidence.LOW,
    )


def _climbs(returned: Sequence[ErrorReturned]) -> bool:
    """Is an error handed on from step to step, as on the way out? A single one, without a reason, is often got over."""
    places = {(e.line.file, e.line.number) for e in returned}
    return any((file, number + 1) in places for file, number in places)


def _cuda(reasons: Sequence[str]) -> str:
    return f"Cuda failure '{reasons[0][:200]}'" if reasons else ""


def _went_on(job: Job, error: ErrorReturned) -> bool:
    """Does its process come further afterwards? NCCL tries networks that it does without."""
    process = job.process_of(error)
    later: list[Event] = [*job.events(NetworkChosen), *job.events(CommStart)]
    later += job.events(CommComplete)
    return process is not None and any(
        e.line.file == error.line.file
        and e.line.number > error.line.number
        and (p := job.process_of(e)) is not None
        and p.id == process.id
        for e in later
    )


_H = "gpu-1:71:71 [0] "
fires_on = {
    "2.3+, words that nobody has described": _H
    + "transport/new.cc:12 NCCL WARN The quux of rank 3 is upside down\n"
    + _H
    + "NCCL INFO transport/new.cc:12 -> 3\n",
    "an exception alone": "[rank1]: torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:93, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5\n",
    "RCCL": "mi-1:71:71 [0] /src/transport/new.cc:12 NCCL WARN The quux of rank 3 is upside down\n"
    "mi-1:71:71 [0] NCCL INFO /src/transport/new.cc:12 -> 3\n",
}
silent_on = {
    "a warning without a failure": _H + "misc/new.cc:12 NCCL WARN The quux looks odd\n",
    "a network that is tried and done without": _H
    + "NCCL INFO net.cc:55 -> 3\n"
    + _H
    + "NCCL INFO Using network IB\n",
    "the reason is known": _H
    + "init.cc:904 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60\n"
    + _H
    + "NCCL INFO init.cc:1358 -> 5\n",
}
