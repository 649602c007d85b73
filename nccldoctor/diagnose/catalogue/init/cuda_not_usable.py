"""A process cannot use its GPU at all.

NCCL needs a CUDA (or HIP) context on the rank's device. It gets none when the device's number does not exist for this
process (the global rank used as device index on the second host, a narrow CUDA_VISIBLE_DEVICES), when the container
sees no GPU, when the GPU is in exclusive mode and taken, or when CUDA is used again after a fork.
`operation not supported` comes from memory pools or IPC that a virtualised GPU lacks; where the evidence says vGPU or
MIG, that is TOPO12. Not a fault: `Failed to find CUDA library` when the driver's version follows.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.reasons import UNUSABLE, failures
from nccldoctor.diagnose.words import who
from nccldoctor.model.events.gpus import GpuState
from nccldoctor.model.events.platform import Partition
from nccldoctor.model.events.torch import CudaError
from nccldoctor.model.events.trouble import CudaFailure
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "INIT06"
name = "cuda-not-usable"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "INIT03", "INIT07", "NET10", "HANG04", "CRASH01", "BUF07")
confirm = (
    "nvidia-smi -L; echo $CUDA_VISIBLE_DEVICES; nvidia-smi -q -d COMPUTE | grep 'Compute Mode'  # inside the container: as many GPUs as ranks on this host, mode Default",
)
remedy = (
    "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))  # LOCAL_RANK, not RANK; costs nothing",
    "docker run --gpus all …  # or the device plugin's resource request; ROCm: --device=/dev/kfd --device=/dev/dri; costs nothing but the GPUs",
    "torch.multiprocessing.set_start_method('spawn')  # where CUDA is used after a fork; costs a slower start of workers",
    "sudo nvidia-smi -c 0  # compute mode back to Default; costs the exclusivity that somebody set for all users",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a reason; memory pools of a partitioned GPU are left to TOPO12."""
    by_reason: dict[str, list[CudaError | CudaFailure]] = {}
    for event in failures(job, UNUSABLE):
        if event.reason == "operation not supported" and _partitioned(job):
            continue
        if "transport/p2p.c" in (getattr(event, "place", None) or "") and "ordinal" in event.reason:
            continue
        by_reason.setdefault(event.reason, []).append(event)
    for reason, events in sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0])):
        forked = "initialization error" in reason or "forked" in reason
        yield told_by(
            job,
            events,
            f"{who(job, events)} cannot use its GPU: {reason}"
            + (" (CUDA is used in a process that was forked after CUDA had begun?)" * forked),
            remedy=(remedy[2], *confirm, *remedy[:2]) if forked else (),
        )


def _partitioned(job: Job) -> bool:
    return bool(job.events(Partition)) or any(
        "MIG" in (g.name or "") or "GRID" in (g.name or "") for g in job.events(GpuState)
    )


fires_on = {
    "PyTorch": "[rank9]: RuntimeError: CUDA error: invalid device ordinal",
    "2.19+": "gpu-1:71:71 [0] init.cc:1 NCCL WARN Cuda failure 3 'initialization error'",
    "2.3-2.18": "gpu-1:71:71 [0] init.cc:1 NCCL WARN Cuda failure 'invalid device ordinal'",
    "no GPU": "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
    "fork": "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method",
    "memory pools": "gpu-1:71:71 [0] include/alloc.h:1 NCCL WARN Cuda failure 801 'operation not supported'",
    "RCCL": "gpu-1:71:71 [0] /src/init.cc:1 NCCL WARN HIP failure: 'invalid device ordinal'",
    "ROCm": "RuntimeError: No HIP GPUs are available",
}
silent_on = {
    "memory is another matter": "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB",
    "libcuda found at the second try": (
        "gpu-1:71:71 [0] NCCL INFO Failed to find CUDA library libcuda.so (NCCL_CUDA_PATH='') : libcuda.so: cannot open shared object file\n"
        "gpu-1:71:71 [0] NCCL INFO cudaDriverVersion 12040\n"
    ),
    "memory pools of a MIG slice": (
        "  MIG 3g.40gb     Device  0: (UUID: MIG-0f3a6c3e-1)\n"
        "gpu-1:71:71 [0] include/alloc.h:1 NCCL WARN Cuda failure 801 'operation not supported'\n"
    ),
}
