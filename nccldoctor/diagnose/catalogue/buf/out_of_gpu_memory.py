"""A GPU has no memory left, for NCCL's buffers or for the program's tensors.

The framework's allocator often takes nearly all of it before NCCL makes its buffers at the first collective. Another
process on the same GPU (a run that was not cleaned up, all ranks on device 0) does the same. The rank that runs out
first is the cause; the others only lose their connection to it.
"""

from collections.abc import Iterable, Sequence

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import lines, size, who
from nccldoctor.model.event import Event
from nccldoctor.model.events.torch import CudaError
from nccldoctor.model.events.trouble import AllocationFailed, CudaFailure
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "BUF04"
name = "out-of-gpu-memory"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("CRASH01", "CRASH02", "INIT01", "INIT06", "NET10", "HANG01", "HANG04", "CRASH03")
look_first = True
confirm = (
    "nvidia-smi --query-compute-apps=pid,used_memory,gpu_uuid --format=csv  # does another process hold memory? is every rank on its own GPU?",
)
remedy = (
    "torch.cuda.set_per_process_memory_fraction(0.9)  # before the first allocation: leaves room for NCCL; costs a tenth of the memory for tensors, so maybe a smaller batch",
    "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # less waste by fragmentation; costs the registration of user buffers",
    "kill PID  # a left-over process of yours that the check shows; costs that process's work",
)


def check(job: Job) -> Iterable[Found]:
    """One finding: the first rank by time where times are known, else all that say so."""
    events: list[Event] = [e for e in job.events(CudaFailure) if _full(e.reason)]
    events += [e for e in job.events(CudaError) if _full(e.reason)]
    failed = [e for e in job.events(AllocationFailed) if e.memory == "cuda"]
    if not events and not failed:
        return
    first = _first([*events, *failed])
    wanted = max((e.size_bytes or 0 for e in failed), default=0)
    what = f" for {size(wanted)} of NCCL's" if wanted else ""
    yield told_by(
        job,
        first,
        f"{who(job, first)} ran out of GPU memory{what}",
        evidence=lines([*first, *failed, *events]),
    )


def _full(reason: str) -> bool:
    return "out of memory" in reason.lower()


def _first(events: Sequence[Event]) -> list[Event]:
    """Those of the moment that is first, or all where a time is missing."""
    times = [e.speaker.time for e in events]
    known = [t for t in times if t is not None]
    if len(known) < len(times):
        return list(events)
    return [e for e in events if e.speaker.time == min(known)]


_H = "gpu-1:71:71 [0] "
fires_on = {
    "2.3-2.18": _H + "include/alloc.h:110 NCCL WARN Cuda failure 'out of memory'\n",
    "2.19+": "[2026-11-30 04:00:00] "
    + _H
    + "include/alloc.h:228 NCCL WARN Cuda failure 2 'out of memory'\n"
    + _H
    + "include/alloc.h:235 NCCL WARN Failed to CUDA calloc async 4194304 bytes\n",
    "PyTorch 2.9+": "[rank1]: Traceback (most recent call last):\n[rank1]: torch.AcceleratorError: CUDA error: out of memory\n",
    "PyTorch": "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB\n",
    "RCCL": _H + "include/alloc.h:110 NCCL WARN HIP failure: 'out of memory'\n",
}
silent_on = {
    "another CUDA error": _H
    + "enqueue.cc:1 NCCL WARN Cuda failure 700 'an illegal memory access was encountered'\n",
}
