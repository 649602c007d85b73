"""NCCL refuses a call as invalid, and says why.

ncclInvalidUsage and ncclInvalidArgument mean that the caller broke a rule: a root or datatype out of range, a buffer on
another GPU than the communicator's, a communicator used after it was destroyed, unlike communicators in one group.
Many set-up faults surface as "invalid usage" too; those with a code of their own (duplicate GPU, no interface, a bad
NCCL_ALGO, different versions, no network) are reported there and not here.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.event import Event
from nccldoctor.model.events.torch import BackendError
from nccldoctor.model.events.trouble import (
    BadToken,
    BadValue,
    DuplicateGpu,
    NoAlgorithm,
    NoInterface,
    NoNetwork,
    VersionMismatch,
    Warned,
)
from nccldoctor.model.events.usage import InvalidUsage, RankCountDiffers, RankOutOfRange, RankTaken
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "INIT07"
name = "invalid-usage"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "NET10", "HANG04", "CRASH01")
confirm = (
    "export NCCL_DEBUG=WARN  # the line before the exception gives the reason and the function",
)
remedy = (
    "tensor = tensor.to(f'cuda:{local_rank}').contiguous()  # before the named call: the buffer must be on this rank's GPU; costs a copy where it was not",
    "dst = dist.get_global_rank(group, 0)  # root and peer are global ranks that must be members of the group; costs nothing",
    "del group  # no process group may be used after destroy_process_group() or abort(), nor one communicator from two threads; costs nothing",
)

_ELSEWHERE: tuple[type[Event], ...] = (
    DuplicateGpu,
    NoInterface,
    NoNetwork,
    BadToken,
    BadValue,
    NoAlgorithm,
    VersionMismatch,
    RankTaken,
    RankCountDiffers,
    RankOutOfRange,
)
"""Reasons that have a code of their own."""


def check(job: Job) -> Iterable[Found]:
    """One finding a reason; without any known reason, one for the bare exception."""
    by_reason = apart(job.events(InvalidUsage), lambda event: event.reason)
    for reason, events in sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0])):
        yield told_by(job, events, f"{who(job, events)} called NCCL wrongly: {reason}")
    if not by_reason and not any(job.events(kind) for kind in _ELSEWHERE):
        yield from _bare(job)


def _bare(job: Job) -> Iterable[Found]:
    errors = [
        e for e in job.events(BackendError) if e.error in ("invalid usage", "invalid argument")
    ]
    if not errors:
        return
    warned = [w for w in job.events(Warned) if w.level == "WARN"][:1]
    reason = f": {warned[0].message[:160]}" if warned else ", and the log does not say why"
    yield told_by(
        job,
        errors,
        f"{who(job, errors)} got '{errors[0].error}' from NCCL{reason}",
        evidence=lines([*errors[:3], *warned]),
        confidence=Confidence.MEDIUM if warned else Confidence.LOW,
    )


_ERROR = (
    "[rank1]: torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:93, invalid argument "
    "(run with NCCL_DEBUG=WARN for details), NCCL version 2.28.9\n"
)

fires_on = {
    "root": "gpu-1:71:71 [0] misc/argcheck.cc:1 NCCL WARN Broadcast : invalid root 7 (root should be in the 0..4 range)",
    "device": "gpu-1:71:71 [0] misc/argcheck.cc:39 NCCL WARN AllReduce : sendbuff allocated on device 0 mismatchs with NCCL device 1",
    "2.30.7+": "gpu-1:71:71 [0] misc/argcheck.cc:39 (CommCheck) NCCL WARN comm 0x5581 has already been destroyed",
    "PyTorch's traceback alone": _ERROR
    + "[rank1]: ncclInvalidArgument: Invalid value for an argument.\n[rank1]: Last error:\n"
    "[rank1]: Broadcast : invalid root 7 (root should be in the 0..4 range)\n",
    "no reason given": _ERROR,
    "RCCL": "gpu-1:71:71 [0] /src/misc/argcheck.cc:1 NCCL WARN AllReduce : invalid reduction operation 12 (must be within range 0..4)",
}
silent_on = {
    "a duplicate GPU has its own code": (
        "gpu-1:71:71 [0] init.cc:904 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60\n"
        + _ERROR.replace("invalid argument", "invalid usage")
    ),
    "a system error is no wrong usage": _ERROR.replace(
        "invalid argument", "unhandled system error"
    ),
}
