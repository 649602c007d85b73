"""CUDA's and HIP's reasons of failure, sorted by what they point to; words as cudaGetErrorString has them."""

from collections.abc import Iterable

from nccldoctor.model.event import Event
from nccldoctor.model.events.torch import CudaError
from nccldoctor.model.events.trouble import CudaFailure
from nccldoctor.model.job import Job

UNUSABLE = (
    "initialization error",
    "no CUDA-capable device",
    "no ROCm-capable device",
    "invalid device ordinal",
    "device(s) is/are busy or unavailable",
    "devices are busy or unavailable",
    "operation not supported",
    "GPUs are available",
    "no GPUs found",
    "Found no NVIDIA driver",
    "re-initialize CUDA in forked",
    "forward compatibility was attempted",
    "OS call failed",
)
"""The GPU cannot be used by this process at all."""

FABRIC = ("system not yet initialized", "cannot be performed in the present state")
"""NVSwitch's fabric is not set up (cudaErrorSystemNotReady 802; 401 from multicast)."""

DRIVER = (
    "CUDA driver version is insufficient",
    "unsupported display driver / cuda driver combination",
    "PTX was compiled with an unsupported toolchain",
)
"""The driver is too old for the library."""

ARCHITECTURE = ("no kernel image is available", "invalid device function", "named symbol not found")
"""The library has no code for this GPU."""

KERNEL = (
    "illegal memory access",
    "device-side assert",
    "unspecified launch failure",
    "misaligned address",
    "illegal instruction",
    "invalid program counter",
    "hardware stack error",
    "invalid address space",
    "Memory access fault by GPU",
    "launch timed out",
)
"""A kernel went wrong; CUDA tells it to whoever calls next, NCCL or not."""

NVLINK = ("uncorrectable NVLink error",)
MEMORY = ("uncorrectable ECC error",)
"""The hardware failed below a kernel (cudaErrorNvlinkUncorrectable 220, cudaErrorECCUncorrectable 214)."""


def failures(job: Job, reasons: Iterable[str]) -> list[CudaError | CudaFailure]:
    """The program's and NCCL's CUDA errors with one of these reasons, the program's own first."""
    wanted = tuple(reasons)
    events: list[CudaError | CudaFailure] = [*job.events(CudaError), *job.events(CudaFailure)]
    return [e for e in events if any(reason in e.reason for reason in wanted)]


def earliest(events: Iterable[Event]) -> Event | None:
    """The event with the earliest time, where all tell one; clocks of hosts may differ by seconds."""
    found = list(events)
    if not found or any(e.speaker.time is None for e in found):
        return None
    return min(
        found, key=lambda e: (e.speaker.time is None, e.speaker.time, e.line.file, e.line.number)
    )
