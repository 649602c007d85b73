"""/dev/shm has no room for NCCL's (or PyTorch's) shared-memory segments.

GPUs of one host that cannot copy directly, and host buffers of network proxies, need segments there; containers get 64
MB by default. Segments that killed processes left behind fill it too. `maxSharedMem` in NCCL's lines is memory inside
the GPU's multiprocessors and has nothing to do with this. A segment that is not found when attaching is not a lack of
room: the ranks sit in different containers.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines, size, who
from nccldoctor.model.events.trouble import SharedMemoryFailed
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "BUF01"
name = "shm-too-small"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "NET10", "CRASH01", "CRASH03", "HANG04", "BUF07")
remedy = (
    "docker run --shm-size=16g …  # or --ipc=host",
    "kubectl: volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}] mounted at /dev/shm  # counts as the pod's memory",
    "df -h /dev/shm; ls -la /dev/shm | head; rm /dev/shm/nccl-*  # left-overs, when no job runs",
)
_ROOM = ("no space", "cannot allocate", "bus error", "insufficient", "not enough")


def check(job: Job) -> Iterable[Found]:
    """One finding with the largest segment that was wanted."""
    events = [e for e in job.events(SharedMemoryFailed) if _lacks_room(e)]
    if not events:
        return
    told = [e for e in events if e.reason]
    wanted = max((e.size_bytes or 0 for e in events), default=0)
    need = f" (a segment of {size(wanted)} was wanted)" if wanted else ""
    ranks = f"{len(job.ranks_of(events))} ranks" if len(job.ranks_of(events)) > 8 else None
    yield Found(
        title=f"{ranks or who(job, events)}: /dev/shm is too small{need}",
        evidence=lines(events),
        ranks=job.ranks_of(events),
        hosts=job.hosts_of(events),
        confidence=Confidence.HIGH if told else Confidence.MEDIUM,
    )


def _lacks_room(event: SharedMemoryFailed) -> bool:
    reason = (event.reason or "").lower()
    return not reason or any(word in reason for word in _ROOM)


_H = "gpu-1:71:71 [0] "
fires_on = {
    "2.20+": _H
    + "misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-Y3cmX5 to 33030532 bytes, error: No space left on device (28)\n",
    "2.14-2.19": _H
    + "misc/shmutils.cc:112 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Y3cmX5 (size 9637888)\n",
    "2.4-2.13": _H
    + "include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device\n",
    "PyTorch's loader": "[rank0]: ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n",
}
silent_on = {
    "shared memory of the GPU": _H + "NCCL INFO cudaArch 900 ncclMaxSharedMem 82240\n",
    "another container": _H
    + "misc/shmutils.cc:112 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-Y3cmX5 (size 9637888), error: No such file or directory (2)\n",
}
