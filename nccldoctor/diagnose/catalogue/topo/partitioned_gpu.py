"""Ranks run on parts of GPUs: MIG slices or vGPU profiles, which lack what NCCL uses.

A MIG slice has no peer-to-peer access and no NVLink, many vGPU profiles no CUDA IPC and no memory pools. NCCL falls back
to shared memory, or fails with `operation not supported`.
Not a fault: one rank alone on a slice. Without any sign of trouble it is a note.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines, some
from nccldoctor.model.event import Event
from nccldoctor.model.events.gpus import GpuState
from nccldoctor.model.events.nccl import CommComplete, CommStart
from nccldoctor.model.events.platform import Partition, PeerAccessFailed
from nccldoctor.model.events.trouble import CudaFailure, P2pDisabled
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "TOPO12"
name = "partitioned-gpu"
severity = Severity.WARNING
needs = (Evidence.OUTPUT, Evidence.HOST_STATE)
explains = ("INIT06", "TOPO01", "PERF01", "BUF06", "CRASH01", "HANG04", "NET10")
confirm = (
    "nvidia-smi -L; nvidia-smi -q | grep -iE 'MIG Mode|Virtualization Mode' -A2  # slices, or a virtual GPU",
)
remedy = (
    "sudo nvidia-smi mig -dci; sudo nvidia-smi mig -dgi; sudo nvidia-smi -i GPU -mig 0  # whole GPUs again; costs what runs on the slices",
    "export NCCL_CUMEM_ENABLE=0  # until a profile with memory pools is there: NCCL then uses plain allocations; costs user-buffer registration and NVLS",
    "virsh edit VM  # a pass-through GPU, or a vGPU profile with peer-to-peer (a full-size C profile) and UVM enabled; costs sharing that GPU",
)


def check(job: Job) -> Iterable[Found]:
    """One finding: warning or error where NCCL stumbles over it, a note where several ranks share such GPUs."""
    partitions: list[Event] = [*job.events(Partition), *_by_name(job)]
    if not partitions:
        return
    trouble: list[Event] = [
        e for e in job.events(CudaFailure) if e.reason == "operation not supported"
    ]
    fatal = bool(trouble)
    trouble += job.events(PeerAccessFailed)
    trouble += job.events(P2pDisabled)
    starts = [*job.events(CommStart), *job.events(CommComplete)]
    several = any(s.nranks > 1 for s in starts)
    if not trouble and not several:
        return
    names = some(sorted({_name(e) for e in partitions}))
    if trouble:
        what = f"and NCCL stumbles over it: {getattr(trouble[0], 'reason', 'no peer access')}"
    else:
        what = "which have no peer-to-peer access: NCCL copies through host memory"
    yield Found(
        title=f"The job runs on parts of GPUs ({names}), {what}",
        evidence=lines([*partitions[:2], *trouble[:2]]),
        confidence=Confidence.HIGH if trouble else Confidence.MEDIUM,
        ranks=job.ranks_of(trouble),
        hosts=job.hosts_of([*partitions, *trouble]),
        severity=Severity.ERROR if fatal else None if trouble else Severity.NOTE,
    )


def _by_name(job: Job) -> list[GpuState]:
    """GPUs whose name is a slice's or a vGPU's: `NVIDIA A100-SXM4-40GB MIG 3g.20gb`, `GRID A100D-40C`."""
    return [
        g for g in job.events(GpuState) if "MIG " in (g.name or "") or "GRID " in (g.name or "")
    ]


def _name(event: Event) -> str:
    if isinstance(event, Partition):
        return f"{event.kind} {event.name}"
    return str(getattr(event, "name", "") or "a part of a GPU")


_MIG = "  MIG 3g.40gb     Device  0: (UUID: MIG-0f3a6c3e-1)\n"

fires_on = {
    "memory pools": _MIG
    + "gpu-1:71:71 [0] include/alloc.h:1 NCCL WARN Cuda failure 801 'operation not supported'\n",
    "before 2.19": _MIG
    + "gpu-1:71:71 [0] include/alloc.h:1 NCCL WARN Cuda failure 'operation not supported'\n",
    "peer access": _MIG
    + "gpu-1:71:71 [0] transport/p2p.cc:1 NCCL WARN failed to peer with device 1(=3d000): 217 peer access is not supported between these two devices\n",
}
silent_on = {
    "one rank": _MIG
    + "gpu-1:71:71 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 60 commId 0xaa - Init COMPLETE\n",
    "whole GPUs": "GPU 0: NVIDIA H200 (UUID: GPU-0f3a6c3e-1)\n",
}
