"""A rank gets no proper name of the shared-memory segment that it has to attach to.

Ranks of one host hand each other the names of segments in /dev/shm. Since 2.24 NCCL can share host memory through CUDA
instead (cuMem), and each rank finds out for itself whether that works. Where it works for one rank and not for another
(GPUs on NUMA nodes that CUDA treats unlike, ranks with different NCCL versions or settings), one sends a CUDA handle and
the other reads it as a file's name: the name is empty or the size 0. More room in /dev/shm does not help.
Not this: `No space left on device` (BUF01); a proper name that is not found (TOPO13).
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import who
from nccldoctor.model.events.trouble import SharedMemoryFailed
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "BUF08"
name = "shm-segment-malformed"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "NET10", "CRASH01", "HANG04")
confirm = (
    "numactl -H; nvidia-smi topo -m; python -c 'import torch; print(torch.cuda.nccl.version())'; env | grep NCCL_  # for each rank: the same version and settings? a NUMA node without CPUs, or a container that sees only some of them, makes ranks differ",
)
remedy = (
    "export NCCL_CUMEM_HOST_ENABLE=0  # on all ranks: host memory is then shared through /dev/shm everywhere; costs room there (--shm-size), about 9 MiB a channel and neighbour",
)


def check(job: Job) -> Iterable[Found]:
    """One finding."""
    events = [e for e in job.events(SharedMemoryFailed) if e.malformed]
    if events:
        yield told_by(
            job,
            events,
            f"{who(job, events)} got a malformed name of another rank's shared memory: "
            "the two share host memory in different ways (cuMem and /dev/shm)",
            confidence=Confidence.MEDIUM,
        )


_H = (
    "gpu-1:71:71 [0] misc/shmutils.cc:129 NCCL WARN Error while attaching to shared memory segment "
)
fires_on = {
    "2.24+, no size": _H + "/dev/shm/nccl-4xKtZq (size 0), error: No such file or directory (2)\n",
    "2.24+, no name": _H
    + "/dev/shm/nccl- (size 192814336), error: No such file or directory (2)\n",
}
silent_on = {
    "a proper name": _H
    + "/dev/shm/nccl-Y3cmX5 (size 9637888), error: No such file or directory (2)\n",
}
