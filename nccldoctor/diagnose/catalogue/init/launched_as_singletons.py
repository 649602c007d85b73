"""Several processes run, and each believes that it is alone: rank 0 of 1.

Without a launcher that tells ranks apart, N processes make N jobs of one rank each: nccl-tests built without MPI=1
under mpirun, `python train.py` instead of torchrun, a script that ignores WORLD_SIZE. Nothing fails; each trains on its
own, and bandwidth tests show numbers of no network at all.
Not a fault: one process with one rank; runs of one rank each that were started apart, which pids far from one another
or different hosts tell (a note); single-rank communicators beside larger ones (a tensor-parallel group of one).
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines
from nccldoctor.model.events.nccl import CommComplete, CommStart
from nccldoctor.model.events.usage import NcclTestsRank
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "INIT05"
name = "launched-as-singletons"
severity = Severity.ERROR
needs = (Evidence.INFO_LOG, Evidence.OUTPUT)
explains = ("LOG06", "LOG03")
confirm = (
    "ldd ./all_reduce_perf | grep -i mpi; echo RANK=$RANK WORLD_SIZE=$WORLD_SIZE  # under the launcher: no MPI library, or WORLD_SIZE empty or 1?",
)
remedy = (
    "torchrun --nproc-per-node=8 train.py  # instead of python train.py; costs nothing",
    "make MPI=1 MPI_HOME=/usr/lib/x86_64-linux-gnu/openmpi  # nccl-tests under mpirun; without it: ./all_reduce_perf -g 8; costs a rebuild",
    "srun --ntasks-per-node=8 --gpus-per-task=1 bash -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID python train.py'  # costs nothing; MASTER_ADDR and MASTER_PORT must be set too",
)


_NEAR_PIDS = 512


def check(job: Job) -> Iterable[Found]:
    """Processes whose only communicators have one rank, where no larger communicator exists at all."""
    tests = job.events(NcclTestsRank)
    alone = {(e.test_host, e.test_pid): e for e in tests if e.test_rank == 0}
    if len(alone) > 1 and not any(e.test_rank > 0 for e in tests):
        yield Found(
            title=f"{len(alone)} processes of nccl-tests are each rank 0 of 1: they were built without MPI and do not know each other",
            evidence=lines(alone.values()),
            hosts=tuple({e.test_host for e in alone.values()}),
        )
        return
    starts = [*job.events(CommStart), *job.events(CommComplete)]
    single: dict[int, CommStart] = {}
    for start in starts:
        process = job.process_of(start)
        if process is not None and start.nranks == 1:
            single.setdefault(process.id, start)
    if len(single) < 2 or any(s.nranks > 1 for s in starts):
        return
    hosts = job.hosts_of(single.values())
    together = _started_together(single.values())
    yield Found(
        title=f"{len(single)} processes on {', '.join(hosts[:4])} are each rank 0 of 1: they do not know each other",
        evidence=lines(single.values()),
        confidence=Confidence.MEDIUM if together else Confidence.LOW,
        hosts=hosts,
        severity=None if together else Severity.NOTE,
    )


def _started_together(starts: Iterable[CommStart]) -> bool:
    """Do two processes of one host have pids as near as those of one launcher's children?"""
    pids: dict[str | None, list[int]] = {}
    for start in starts:
        if start.speaker.pid is not None:
            pids.setdefault(start.speaker.host, []).append(start.speaker.pid)
    return any(
        b - a < _NEAR_PIDS
        for own in pids.values()
        for a, b in zip(sorted(own), sorted(own)[1:], strict=False)
    )


_ALONE = "gpu-1:{0}:{0} [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 60 commId {1} - Init COMPLETE\n"
_OLD = "gpu-1:{0}:{0} [0] NCCL INFO comm 0x1 rank 0 nranks 1 cudaDev 0 busId {1} - Init COMPLETE\n"

fires_on = {
    "2.21+": _ALONE.format(71, "0xa1") + _ALONE.format(72, "0xa2"),
    "2.5-2.15": _OLD.format(71, "1b000") + _OLD.format(72, "3d000"),
    "nccl-tests 2.10+": (
        "#  Rank  0 Group  0 Pid  71 on gpu-1 device  0 [0000:1b:00] NVIDIA H200\n"
        "#  Rank  0 Group  0 Pid  72 on gpu-1 device  0 [0000:1b:00] NVIDIA H200\n"
    ),
}
silent_on = {
    "two runs at two times": _ALONE.format(71, "0xa1") + _ALONE.format(9071, "0xa2"),
    "one process": _ALONE.format(71, "0xa1"),
    "groups of one beside a pair": _ALONE.format(71, "0xa1")
    + _ALONE.format(72, "0xa2")
    + _ALONE.format(71, "0xb1").replace("nranks 1", "nranks 2")
    + _ALONE.format(72, "0xb1").replace("rank 0 nranks 1", "rank 1 nranks 2"),
    "nccl-tests with MPI": (
        "#  Rank  0 Group  0 Pid  71 on gpu-1 device  0 [0000:1b:00] NVIDIA H200\n"
        "#  Rank  1 Group  0 Pid  72 on gpu-1 device  1 [0000:3d:00] NVIDIA H200\n"
    ),
}
