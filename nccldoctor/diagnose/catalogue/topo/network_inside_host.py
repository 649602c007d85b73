"""Ranks of one host talk to each other over the network.

NCCL takes ranks for neighbours when their host hash agrees: boot id, host name, UTS and other namespaces, or NCCL_HOSTID.
Containers of one machine with names of their own look like different hosts; NVLink and shared memory then stay unused.
The other way round, containers that share a name (or a NCCL_HOSTID) but not /dev/shm look like one: a rank then cannot
attach the segment that its neighbour has made (`No such file or directory`), and the job ends.
Not a fault: several machines; P2P and shared memory switched off by hand (ENV06).
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.gpus import over_net_inside, ranks_at
from nccldoctor.diagnose.merging import merged
from nccldoctor.diagnose.settings import named, on
from nccldoctor.diagnose.words import lines, ranges, who
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import CommShape
from nccldoctor.model.events.trouble import SharedMemoryFailed
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.topology import Connection

code = "TOPO13"
name = "network-inside-host"
severity = Severity.WARNING
needs = (Evidence.INFO_LOG, Evidence.NCCL_LOG)
explains = ("BACKEND02", "TOPO01", "PERF01", "INIT01", "NET10", "CRASH01", "HANG04")
confirm = (
    "for c in $CONTAINERS; do docker exec $c sh -c 'hostname; readlink /proc/self/ns/ipc /proc/self/ns/uts; df /dev/shm | tail -1; echo $NCCL_HOSTID'; done  # names and namespaces must be the same on one machine",
)
remedy = (
    "docker run --ipc=host --uts=host --network=host …  # all ranks of a machine; or one container with all of its GPUs; costs isolation between them",
    "export NCCL_HOSTID=$(cat /proc/sys/kernel/random/boot_id)  # the same on all containers of a machine that share /dev/shm, another on each machine; costs nothing",
    "kubectl set resources statefulset NAME --limits=nvidia.com/gpu=8  # one pod a node with all GPUs, instead of one pod a GPU; costs scheduling single GPUs",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a host: by connections over NET between two of its ranks, else by NCCL's count of hosts. Those of many hosts are one."""
    return [*_apart(job), *merged(_each(job))]


def _apart(job: Job) -> Iterable[Found]:
    """Ranks that NCCL takes for neighbours see different /dev/shm; versions before 2.20 leave the reason out."""
    failed = [e for e in job.events(SharedMemoryFailed) if _not_there(e)]
    if failed:
        hostid: list[Event] = [s.event for s in named(job, "NCCL_HOSTID")][:1]
        sure = any(e.reason for e in failed)
        yield told_by(
            job,
            failed,
            f"{who(job, failed)}: the shared memory of a rank on the same host is not there: the two see different /dev/shm",
            evidence=lines([*failed, *hostid]),
            confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
            severity=Severity.ERROR,
        )


def _not_there(event: SharedMemoryFailed) -> bool:
    if event.malformed:
        return False
    if event.reason is None:
        return event.attaching
    return "No such file" in event.reason


def _each(job: Job) -> Iterable[Found]:
    if any(on(s) for s in named(job, "NCCL_SHM_DISABLE")):
        return
    inside = [c for c in job.connections if over_net_inside(job, c)]
    hosts = sorted({c.source_host for c in inside if c.source_host})
    for host in hosts:
        yield _over_net(job, host, [c for c in inside if c.source_host == host])
    if not hosts:
        yield from _miscounted(job)


def _over_net(job: Job, host: str, connections: list[Connection]) -> Found:
    ranks = ranks_at(job, connections)
    shapes = [e for e in job.events(CommShape) if e.speaker.host == host]
    counted = f": NCCL counts {shapes[0].local_ranks} rank(s) on this host" if shapes else ""
    whose = f"Ranks {ranges(ranks)}" if ranks else "Ranks"
    network = connections[0].network or "NET"
    hostid: list[Event] = [s.event for s in named(job, "NCCL_HOSTID")][:1]
    return Found(
        title=f"{whose} of {host} talk to each other over {network} instead of NVLink or shared memory{counted}",
        evidence=tuple(c.line for c in connections[:2]) + lines([*shapes[:1], *hostid]),
        confidence=Confidence.HIGH,
        ranks=ranks,
        hosts=(host,),
    )


def _miscounted(job: Job) -> Iterable[Found]:
    """A communicator in which NCCL counts more hosts than its processes name."""
    for comm in job.communicators:
        processes = [job.processes[m.process] for m in comm.members if m.process is not None]
        names = {p.host for p in processes if p.host}
        if len(processes) < comm.size or not names:
            continue
        seats = {(m.process, m.comm) for m in comm.members}
        for shape in job.events(CommShape):
            process = job.process_of(shape)
            if process is None or (process.id, shape.comm) not in seats:
                continue
            beside = sum(p.host == process.host for p in processes)
            if shape.mnnvl == 0 and shape.hosts > len(names) and shape.local_ranks < beside:
                yield Found(
                    title=f"NCCL counts {shape.hosts} hosts in {comm.name}, its ranks run on {len(names)}: ranks of one host do not know that they are neighbours",
                    evidence=lines([shape]),
                    confidence=Confidence.MEDIUM,
                    hosts=tuple(sorted(names)),
                )
                return


_PAIR = (
    "gpu-1:71:71 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xaa - Init START\n"
    "gpu-{1}:72:72 [1] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 70 commId 0xaa - Init START\n"
    "gpu-1:71:71 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes {0} localRanks 1 localRank 0 MNNVL 0\n"
)
_NET = "gpu-1:71:71 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/Socket/0\n"

fires_on = {
    "2.20+": _PAIR.format(2, 1) + _NET,
    "2.20+, by NCCL's count": _PAIR.format(2, 1),
    "2.12-2.17": (
        "gpu-1:71:71 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE\n"
        "gpu-1:72:72 [1] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 1 busId 3d000 - Init COMPLETE\n"
        "gpu-1:71:71 [0] NCCL INFO Channel 00/0 : 1[3d000] -> 0[1b000] [receive] via NET/IB/0\n"
    ),
    "2.20+, no shared /dev/shm": "gpu-1:71:71 [0] misc/shmutils.cc:112 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-Y3cmX5 (size 9637888), error: No such file or directory (2)\n",
    "2.14-2.19, no shared /dev/shm": "gpu-1:71:71 [0] misc/shmutils.cc:112 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-Y3cmX5 (size 9637888)\n",
    "2.4-2.13, no shared /dev/shm": "gpu-1:71:71 [0] include/shm.h:48 NCCL WARN Call to shm_open failed : No such file or directory\n",
    "RCCL": _PAIR.format(2, 1) + _NET.replace("Socket/0\n", "Socket/0 comm 0x1 nRanks 02\n"),
}
silent_on = {
    "two machines": _PAIR.format(2, 2) + _NET,
    "one machine": _PAIR.format(1, 1),
    "/dev/shm is full": "gpu-1:71:71 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-Y3cmX5 to 33030532 bytes, error: No space left on device (28)\n",
    "switched off": "gpu-1:71:71 [0] NCCL INFO NCCL_SHM_DISABLE set by environment to 1.\n"
    + _PAIR.format(1, 1)
    + _NET,
}
