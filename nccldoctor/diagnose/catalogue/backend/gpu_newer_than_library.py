"""This build of NCCL, RCCL or PyTorch has no code for the GPU.

Libraries carry machine code for the architectures that they were built for. A newer GPU then gets `no kernel image is
available`, or NCCL finds that its kernels want more shared memory than the device offers.
Not a fault: PyTorch's warning on a second, small GPU that the job does not use is still told here, as a warning.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.reasons import ARCHITECTURE, failures
from nccldoctor.diagnose.words import who
from nccldoctor.model.event import Event
from nccldoctor.model.events.platform import GpuUnsupported
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "BACKEND09"
name = "gpu-newer-than-library"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "INIT07", "CRASH01", "CRASH02", "NET10", "HANG04")
confirm = (
    "python -c 'import torch; print(torch.version.cuda, torch.cuda.get_arch_list(), torch.cuda.get_device_capability())'  # the list must hold the device's sm_XY",
)
remedy = (
    "pip install -U torch --index-url https://download.pytorch.org/whl/cu128  # a build with that architecture; costs a new image, and maybe a newer driver",
    "pip install -U nvidia-nccl-cu12  # when only NCCL complains; ROCm: a release that lists your gfx target; costs a test run",
)


def check(job: Job) -> Iterable[Found]:
    """One finding: an error where a kernel failed, a warning where only PyTorch's start-up check speaks."""
    failed = failures(job, ARCHITECTURE)
    told = job.events(GpuUnsupported)
    events: list[Event] = [*failed, *told]
    if not events:
        return
    gpu = next((e.gpu for e in told if e.gpu), None)
    reason = failed[0].reason if failed else told[0].reason
    subject = f" on {gpu}" if gpu else ""
    only_warned = not failed and all(e.gpu for e in told)
    what = f"this build has no code for the GPU: {reason}" if failed else reason
    yield told_by(
        job,
        events,
        f"{who(job, events)}{subject}: {what}",
        severity=Severity.WARNING if only_warned else None,
    )


fires_on = {
    "PyTorch": "[rank0]: torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
    "start-up check": "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.",
    "2.18+": "gpu-1:71:71 [0] init.cc:1 NCCL WARN cudaArch 1200 ncclMaxSharedMem 172464 exceeds device/fn maxSharedMem 101376",
    "2.19+": "gpu-1:71:71 [0] enqueue.cc:1 NCCL WARN Cuda failure 209 'no kernel image is available for execution on the device'",
    "ROCm": "RuntimeError: HIP error: invalid device function",
}
silent_on = {
    "arch list": "torch 2.8.0+cu128 ['sm_80', 'sm_90', 'sm_100', 'sm_120'] (12, 0)",
}
