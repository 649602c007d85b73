"""/dev/shm has no room for NCCL's (or PyTorch's) shared-memory segments.

GPUs of one host that cannot copy directly, and host buffers of network proxies, need segments there; containers get 64
MB by default. Segments that killed processes left behind fill it too. `maxSharedMem` in NCCL's lines is memory inside
the GPU's multiprocessors and has nothing to do with this. A segment that is not found when attaching is not a lack of
room: the ranks sit in different containers (TOPO13).
"""

from collections.abc import Iterable, Sequence

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.host_memory import one_segment, shared_memory, shared_need
from nccldoctor.diagnose.words import lines, size, who
from nccldoctor.model.event import Event
from nccldoctor.model.events.machine import SharedMemory
from nccldoctor.model.events.torch import ProcessEnded
from nccldoctor.model.events.trouble import SharedMemoryFailed
from nccldoctor.model.events.usage import FatalSignal
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "BUF01"
name = "shm-too-small"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT, Evidence.LAUNCHER)
explains = ("INIT01", "NET10", "CRASH01", "CRASH03", "HANG04", "BUF07")
confirm = (
    "df -h /dev/shm; ls -la /dev/shm | head  # in the container: how large, how full, whose left-overs",
)
remedy = (
    "docker run --shm-size=16g …  # or --ipc=host; costs host memory only as far as it is used",
    'kubectl patch deployment NAME --patch \'{"spec":{"template":{"spec":{"volumes":[{"name":"shm","emptyDir":{"medium":"Memory","sizeLimit":"16Gi"}}]}}}}\'  # mounted at /dev/shm; costs: it counts as the pod\'s memory',
    "rm /dev/shm/nccl-*  # left-overs, only while no job runs on the host; costs nothing then, and ends a running job",
)
BUS_ERROR = (-7, 135)
_ROOM = ("no space", "cannot allocate", "bus error", "insufficient", "not enough")


def check(job: Job) -> Iterable[Found]:
    """One finding with the largest segment that was wanted, else one for ranks that died of a bus error on a full /dev/shm."""
    events = [e for e in job.events(SharedMemoryFailed) if _lacks_room(e)]
    if not events:
        yield from _bus_error(job)
        return
    told = [e for e in events if e.reason]
    wanted = max((e.size_bytes or 0 for e in events), default=0)
    need = f" (a segment of {size(wanted)} was wanted)" if wanted else ""
    ranks = f"{len(job.ranks_of(events))} ranks" if len(job.ranks_of(events)) > 8 else None
    saved, room = _room(job, job.hosts_of(events))
    yield told_by(
        job,
        events,
        f"{ranks or who(job, events)}: /dev/shm is too small{need}{room}",
        evidence=lines([*events[:3], *saved]),
        confidence=Confidence.HIGH if told else Confidence.MEDIUM,
    )


def _room(job: Job, hosts: Sequence[str]) -> tuple[list[SharedMemory], str]:
    """What the host had, and what its connections need, where both were saved."""
    saved = shared_memory(job, hosts)
    if saved is None:
        return [], ""
    need = max((shared_need(job, host) for host in hosts), default=0)
    needs = f"; its connections over shared memory need about {size(need)}" if need else ""
    return [saved], f": it has {size(saved.size_bytes)}, {size(saved.free_bytes)} free{needs}"


def _bus_error(job: Job) -> Iterable[Found]:
    """SIGBUS is what a write to a segment without room gives; proof only where the host's /dev/shm cannot hold what is needed."""
    died: list[Event] = [e for e in job.events(ProcessEnded) if e.exit_code in BUS_ERROR]
    died += [e for e in job.events(FatalSignal) if e.signal == -BUS_ERROR[0]]
    hosts = job.hosts_of(died)
    saved = shared_memory(job, hosts)
    if not died or saved is None:
        return
    need = max(shared_need(job, host) for host in hosts)
    if saved.free_bytes >= one_segment(job) and saved.size_bytes >= need:
        return
    _, room = _room(job, hosts)
    yield Found(
        title=f"{who(job, died)} died of a bus error, and /dev/shm is too small{room}",
        evidence=lines([*died[:3], saved]),
        ranks=job.ranks_of(died),
        hosts=hosts,
        confidence=Confidence.MEDIUM,
    )


def _lacks_room(event: SharedMemoryFailed) -> bool:
    reason = (event.reason or "").lower()
    return (not reason and not event.attaching) or any(word in reason for word in _ROOM)


_H = "gpu-1:71:71 [0] "
_RUN = """{{"nccldoctor": "snapshot", "schema": 1, "host": "gpu-1",
 "exits": [{{"rank": 0, "exit_code": -7, "first": true, "pid": 71, "host": "gpu-1"}}],
 "host_state": {{"shared_memory": {{"size_bytes": 67108864, "free_bytes": {0}}}, "processes": []}}}}
"""
fires_on = {
    "a bus error, and what nccldoctor run saved": _RUN.format(4096),
    "2.20+": _H
    + "misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-Y3cmX5 to 33030532 bytes, error: No space left on device (28)\n",
    "2.14-2.19": _H
    + "misc/shmutils.cc:112 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-Y3cmX5 (size 9637888)\n",
    "2.4-2.13": _H
    + "include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device\n",
    "PyTorch's loader": "[rank0]: ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n",
}
silent_on = {
    "a bus error with room left": _RUN.format(60000000),
    "shared memory of the GPU": _H + "NCCL INFO cudaArch 900 ncclMaxSharedMem 82240\n",
    "another container, 2.14-2.19": _H
    + "misc/shmutils.cc:112 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-Y3cmX5 (size 9637888)\n",
    "another container": _H
    + "misc/shmutils.cc:112 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-Y3cmX5 (size 9637888), error: No such file or directory (2)\n",
}
