"""The GPU's driver is older than what the library or PyTorch was built for.

CUDA code runs on drivers of its own major version or newer, and on older minor versions within limits; beyond them the
runtime answers `CUDA driver version is insufficient`, or functions that NCCL looks up are missing in libcuda.
Not a fault: a driver that is a minor version older and works (cudaDriverVersion 12020 under +cuda12.4).
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.reasons import DRIVER, failures
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import DriverVersion, Version
from nccldoctor.model.events.platform import DriverTooOld
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "BACKEND07"
name = "driver-too-old"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "INIT03", "INIT06", "INIT07", "NET10", "HANG04", "CRASH01")
confirm = (
    "nvidia-smi --query-gpu=driver_version --format=csv,noheader; nvidia-smi | grep 'CUDA Version'  # on each host: the newest CUDA that the driver can run",
)
remedy = (
    "pip install torch --index-url https://download.pytorch.org/whl/cu118  # a build that the driver can run; costs newer kernels and GPU types",
    "apt-get install -y cuda-compat-12-8; export LD_LIBRARY_PATH=/usr/local/cuda-12.8/compat:$LD_LIBRARY_PATH  # in the image, data-centre GPUs only; costs nothing at run time",
    "apt-get install -y nvidia-driver-570 && sudo reboot  # on a drained host; costs the host for some minutes, and all jobs on it",
)


def check(job: Job) -> Iterable[Found]:
    """One finding, with the driver's and the library's CUDA versions where the log has them."""
    events: list[Event] = [*job.events(DriverTooOld), *failures(job, DRIVER)]
    if not events:
        return
    first = events[0]
    reason = getattr(first, "reason", "")
    versions = job.events(DriverVersion)
    built = next((v.cuda for v in job.events(Version) if v.cuda), None)
    known = f" (driver: CUDA {_cuda(versions[0].version)}" if versions else ""
    if known and built:
        known += f", NCCL built for {built}"
    known += ")" if known else ""
    yield told_by(
        job,
        events,
        f"{who(job, events)}: {reason}{known}",
        evidence=lines([*events[:3], *versions[:1]]),
    )


def _cuda(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


fires_on = {
    "2.19+": "gpu-1:71:71 [0] init.cc:1 NCCL WARN Cuda failure 35 'CUDA driver version is insufficient for CUDA runtime version'",
    "2.3-2.18": "gpu-1:71:71 [0] init.cc:1 NCCL WARN Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'",
    "PyTorch": "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver",
    "graphs": "gpu-1:71:71 [0] enqueue.cc:1 NCCL WARN The installed CUDA driver is older than the minimum version (R465) required for NCCL's CUDA Graphs support",
    "PFN": "gpu-1:71:71 [0] misc/cudawrap.cc:1 NCCL WARN CUDA some PFN functions not found in the library",
}
silent_on = {
    "an older minor version that works": (
        "gpu-1:71:71 [0] NCCL INFO cudaDriverVersion 12020\ngpu-1:71:71 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n"
    ),
}
