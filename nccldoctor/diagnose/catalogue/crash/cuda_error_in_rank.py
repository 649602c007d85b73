"""A CUDA or HIP kernel of a rank went wrong: illegal access, device-side assert, launch failure.

CUDA errors are sticky and asynchronous: they show at a later call, often in NCCL's, and from then on every call of that
process fails. The other ranks then wait for a dead peer, or lose their connections to it. So the first rank in time is
the origin, and NCCL's `Cuda failure` only repeats what a kernel of the program did.
Not this: out of memory (BUF04), a device that cannot be used at all (INIT06), a GPU that fell off the bus (HW05).
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.reasons import KERNEL, earliest, failures
from nccldoctor.diagnose.words import lines, ranges, who
from nccldoctor.model.event import Event
from nccldoctor.model.events.torch import CudaError
from nccldoctor.model.events.usage import DeviceAssert
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "CRASH02"
name = "cuda-error-in-rank"
severity = Severity.ERROR
needs = (Evidence.OUTPUT, Evidence.NCCL_LOG)
explains = (
    "CRASH01",
    "NET10",
    "HANG01",
    "HANG02",
    "HANG04",
    "HANG05",
    "INIT03",
    "COLL01",
    "COLL02",
)
look_first = True
confirm = (
    "CUDA_LAUNCH_BLOCKING=1 torchrun …  # one run: the traceback then names the failing kernel; far slower, take it out again",
    "compute-sanitizer --tool memcheck python train.py  # one rank, few steps: names kernel and address; 10 to 100 times slower",
)
remedy = (
    "assert labels.min() >= 0 and labels.max() < num_classes  # before the loss, and the same for token ids: device-side asserts are mostly an index out of range; costs a synchronisation, so only until found",
)


def check(job: Job) -> Iterable[Found]:
    """One finding: the origin, by time where lines tell it, else all ranks that report it."""
    events = failures(job, KERNEL)
    if not events:
        return
    ranks = job.ranks_of(events)
    first = earliest(events) if len(ranks) > 1 else None
    origin: list[Event] = [
        e for e in events if first is None or job.rank_of(e) == job.rank_of(first)
    ]
    reason = next(e.reason for e in events if e in origin)
    asserts = job.events(DeviceAssert)
    detail = f" ({asserts[0].kernel}: {asserts[0].condition})" if asserts else ""
    others = [r for r in ranks if r not in job.ranks_of(origin)]
    after = f"; rank {ranges(others)} failed after it" if others else ""
    told = [e.group_rank for e in events if isinstance(e, CudaError)]
    inner = sorted({rank for rank in told if rank is not None})
    unknown = f"Rank {ranges(inner)} of a group" if inner else "A rank"
    yield told_by(
        job,
        origin,
        f"{who(job, origin, unknown)} hit a CUDA error: {reason}{detail}{after}",
        evidence=lines([*asserts[:1], *origin]),
        confidence=Confidence.HIGH if len(ranks) <= 1 or first is not None else Confidence.MEDIUM,
    )


fires_on = {
    "2.9+": "[rank1]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
    "2.0-2.8": "[rank1]: RuntimeError: CUDA error: an illegal memory access was encountered",
    "watchdog": "[rank1]:[E1130 04:15:21.016 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered",
    "device-side assert": (
        "../aten/src/ATen/native/cuda/Indexing.cu:1290: indexSelectLargeIndex: block: [5,0,0], thread: [32,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"
        "RuntimeError: CUDA error: device-side assert triggered\n"
    ),
    "NCCL 2.19+": "gpu-1:71:75 [1] enqueue.cc:1 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'",
    "NCCL 2.3-2.18": "gpu-1:71:75 [1] enqueue.cc:1 NCCL WARN Cuda failure 'unspecified launch failure'",
    "ROCm": "Memory access fault by GPU node-4 (Agent handle: 0x5581) on address 0x7f3a00000000. Reason: Page not present or supervisor privilege.",
    "HIP": "RuntimeError: HIP error: an illegal memory access was encountered",
}
silent_on = {
    "out of memory": "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB",
    "advice in passing": "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
}
