"""One process cannot open another's GPU memory, so peer-to-peer between processes fails at set-up.

Ranks of one host exchange handles of GPU memory (CUDA or HIP IPC, or cuMem). Making or opening one fails where memory
comes from an allocator that cannot be shared (PyTorch's expandable segments on old versions), where containers share no
IPC and PID namespace, where the GPUs are virtual, MIG slices or under WSL, and on AMD where the IOMMU translates or the
kernel lacks peer-to-peer DMA.
Not a fault: the same words where NCCL goes on with shared memory by itself.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import who
from nccldoctor.model.events.nccl import CommComplete
from nccldoctor.model.events.platform import PeerAccessFailed
from nccldoctor.model.events.trouble import CudaFailure
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "TOPO19"
name = "gpu-memory-not-shareable"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "INIT07", "NET10", "HANG04", "CRASH01", "TOPO01", "TOPO15")
confirm = (
    "NCCL_P2P_DISABLE=1 torchrun …  # for one run only: if it passes, this is the reason; it costs bandwidth, so take it out again",
    "cat /proc/cmdline; readlink /proc/self/ns/ipc /proc/self/ns/pid  # AMD: iommu=pt must be there; the same namespaces in all ranks of a host",
)
remedy = (
    "docker run --ipc=host --pid=host …  # or all ranks of a host in one container; costs isolation between them",
    "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False  # where the memory comes from expandable segments; costs more fragmentation",
    "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&iommu=pt /' /etc/default/grub && sudo update-grub && sudo reboot  # AMD, where the IOMMU translates; costs a reboot",
)

_HOST_MEMORY = "export NCCL_CUMEM_HOST_ENABLE=0  # 2.24 to 2.27 share host memory in a way that needs peer access; until a newer NCCL is there; costs room in /dev/shm"
PEER_UNSEEN = "invalid device ordinal"
"""The other process's GPU is not visible here, as between containers with one GPU each."""
_P2P = ("p2p.cc", "p2p.cu", "ipc")
_REASONS = (
    "invalid argument",
    "invalid resource handle",
    "not supported",
    "peer access",
    PEER_UNSEEN,
)


def check(job: Job) -> Iterable[Found]:
    """One finding; a warning where the communicators were built all the same."""
    refused = [
        e for e in job.events(PeerAccessFailed) if "MemHandle" in e.reason or "IPC" in e.reason
    ]
    failed = [
        e
        for e in job.events(CudaFailure)
        if "peer access is not supported" in e.reason
        or (any(part in (e.place or "") for part in _P2P) and any(r in e.reason for r in _REASONS))
    ]
    both: list[PeerAccessFailed | CudaFailure] = [*refused, *failed]
    if not both:
        return
    host_memory = any("shm.cc" in (e.place or "") for e in failed)
    went_on = bool(job.events(CommComplete)) and not failed
    yield told_by(
        job,
        both,
        f"{who(job, both)} cannot share GPU memory with another process (P2P): {both[0].reason}",
        confidence=Confidence.MEDIUM,
        severity=Severity.WARNING if went_on else None,
        remedy=(_HOST_MEMORY, *remedy) if host_memory else (),
    )


_H = "gpu-1:71:71 [0] "
fires_on = {
    "2.4+": _H + "transport/p2p.cc:239 NCCL WARN Cuda failure 1 'invalid argument'\n",
    "2.10+": _H
    + "transport/p2p.cc:275 NCCL WARN failed to open CUDA IPC handle : 1 invalid argument\n",
    "2.24+, host memory": "[2026-11-30 04:00:00] "
    + _H
    + "transport/shm.cc:590 NCCL WARN Cuda failure 217 'peer access is not supported between these two devices'\n",
    "RCCL": "mi-1:71:71 [0] /src/transport/p2p.cc:239 NCCL WARN hipIpcGetMemHandle failed : invalid argument\n",
}
silent_on = {
    "no memory": _H + "transport/p2p.cc:239 NCCL WARN Cuda failure 2 'out of memory'\n",
    "another place": _H + "enqueue.cc:239 NCCL WARN Cuda failure 1 'invalid argument'\n",
}
