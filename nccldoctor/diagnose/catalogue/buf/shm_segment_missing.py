"""A rank cannot attach to a shared-memory segment that another rank made for it.

Ranks of one host hand each other the names of segments in /dev/shm. The name is not found when the two sit in
containers with a /dev/shm each, when something removed the file in between (systemd's RemoveIPC at a log-out, a cleaner,
the other rank's end), or when the two run different NCCL versions, so that the name arrives empty. More room does not
help.
Not this: `No space left on device` (BUF01).
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines, some, who
from nccldoctor.model.events.trouble import SharedMemoryFailed
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "BUF08"
name = "shm-segment-missing"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "NET10", "CRASH01", "HANG04")
remedy = (
    "docker run --ipc=host …  # all ranks of a host must see one /dev/shm; or put them into one container",
    "grep RemoveIPC /etc/systemd/logind.conf  # must be no: otherwise a log-out removes the segments of running jobs",
    "python -c 'import torch; print(torch.cuda.nccl.version())'  # in each rank's environment: the same version",
    "NCCL_SHM_DISABLE=1 for one run shows whether the rest works; slower, take it out again",
)


def check(job: Job) -> Iterable[Found]:
    """One finding with the segments' names."""
    events = [
        e for e in job.events(SharedMemoryFailed) if "no such file" in (e.reason or "").lower()
    ]
    if not events:
        return
    names = sorted({e.segment for e in events if e.segment})
    yield Found(
        title=f"{who(job, events)} cannot find a shared-memory segment of another rank ({some(names, 2)}): "
        "their /dev/shm differ, or it was removed",
        evidence=lines(events),
        confidence=Confidence.MEDIUM,
        ranks=job.ranks_of(events),
        hosts=job.hosts_of(events),
    )


_H = "gpu-1:71:71 [0] "
fires_on = {
    "2.20+": _H
    + "misc/shmutils.cc:112 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-Y3cmX5 (size 9637888), error: No such file or directory (2)\n",
    "an empty name": _H
    + "misc/shmutils.cc:129 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl- (size 0), error: No such file or directory (2)\n",
}
silent_on = {
    "no room": _H
    + "misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-A8vYnW to 33030532 bytes, error: No space left on device (28)\n",
    "cleaning up": _H
    + "NCCL INFO unlink shared memory /dev/shm/nccl-A8vYnW failed, error: No such file or directory (2)\n",
}
