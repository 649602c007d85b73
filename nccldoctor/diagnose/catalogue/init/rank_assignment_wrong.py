"""Ranks are given out wrongly: one rank twice, different world sizes, or a rank outside the world.

Each process tells NCCL its rank and how many there are; nobody else checks it. Two processes with one rank, or ranks
that expect different numbers, stop at the bootstrap, or hang there for ever. Usual reasons: the global rank computed by
hand, RANK and WORLD_SIZE from two launchers mixed (Slurm inside torchrun), a MASTER_PORT shared by two jobs.
Not a fault: several communicators of different sizes; a restarted job in the same input.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import lines
from nccldoctor.model.events.nccl import CommComplete, CommStart
from nccldoctor.model.events.usage import RankCountDiffers, RankOutOfRange, RankTaken
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "INIT04"
name = "rank-assignment-wrong"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "INIT03", "INIT07", "NET10", "HANG04", "CRASH01", "LOG01")
look_first = True
confirm = (
    "echo $(hostname) RANK=$RANK LOCAL_RANK=$LOCAL_RANK WORLD_SIZE=$WORLD_SIZE SLURM_PROCID=$SLURM_PROCID  # in each process: ranks 0 to WORLD_SIZE-1, each once",
)
remedy = (
    "srun --ntasks-per-node=1 torchrun --nnodes=$SLURM_NNODES --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=$HEAD:29500 train.py  # one torchrun a host; costs nothing",
    "dist.init_process_group('nccl')  # without rank= and world_size=: let the launcher's environment decide; costs nothing",
)


def check(job: Job) -> Iterable[Found]:
    """What NCCL refuses, then what the Init lines of one communicator contradict."""
    for taken in job.events(RankTaken)[:1]:
        yield _found(
            job, taken, f"Two processes are rank {taken.rank} of {taken.nranks}", (taken.rank,)
        )
    for differs in job.events(RankCountDiffers)[:1]:
        counts = f"{differs.nranks} and {differs.other_nranks}"
        yield _found(job, differs, f"Ranks disagree on how many they are: {counts}", ())
    for outside in job.events(RankOutOfRange)[:1]:
        last = outside.nranks - 1
        yield _found(
            job,
            outside,
            f"A process calls itself rank {outside.rank}, but ranks go from 0 to {last}",
            (),
        )
    if not job.events(RankTaken) and not job.events(RankCountDiffers):
        yield from _contradictions(job)


def _found(
    job: Job,
    event: RankTaken | RankCountDiffers | RankOutOfRange,
    title: str,
    ranks: tuple[int, ...],
) -> Found:
    hosts = job.hosts_of([event])
    where = f" (told by {', '.join(hosts)})" if hosts else ""
    return Found(
        title=f"{title}{where}: NCCL cannot build the communicator",
        evidence=lines([event]),
        ranks=ranks or job.ranks_of([event]),
        hosts=hosts,
    )


def _contradictions(job: Job) -> Iterable[Found]:
    """Init lines with one commId that give the same rank to two processes, or different sizes."""
    by_id: dict[str, list[CommStart]] = {}
    for start in [*job.events(CommStart), *job.events(CommComplete)]:
        if start.comm_id is not None and start.api not in ("ncclCommGrow", "ncclCommShrink"):
            by_id.setdefault(start.comm_id, []).append(start)
    for ident, starts in sorted(by_id.items()):
        sizes = {s.nranks: s for s in starts}
        if len(sizes) > 1:
            told = " and ".join(map(str, sorted(sizes)))
            yield told_by(
                job,
                sizes.values(),
                f"Ranks of communicator {ident} disagree on how many they are: {told}",
            )
        else:
            yield from _twice(job, ident, starts)


def _twice(job: Job, ident: str, starts: list[CommStart]) -> Iterable[Found]:
    first: dict[int, CommStart] = {}
    for start in starts:
        other = first.setdefault(start.rank, start)
        who, whose = job.process_of(start), job.process_of(other)
        if who is not None and whose is not None and who.id != whose.id:
            yield Found(
                title=f"Two processes are rank {start.rank} of communicator {ident}: "
                f"{other.speaker.host}:{other.speaker.pid} and {start.speaker.host}:{start.speaker.pid}",
                evidence=lines([other, start]),
                ranks=(start.rank,),
                hosts=job.hosts_of([other, start]),
            )
            return


_START = "{0} [0] NCCL INFO ncclCommInitRank comm 0x1 rank {1} nranks {2} cudaDev 0 nvmlDev 0 busId 60 commId 0xaa - Init START\n"

fires_on = {
    "2.4+": "gpu-1:71:71 [0] bootstrap.cc:1 NCCL WARN Bootstrap Root : rank 1 of 4 ranks has already checked in",
    "2.3-2.22": "gpu-1:71:71 [0] bootstrap.cc:1 NCCL WARN Bootstrap Root : mismatch in rank count from procs 4 : 8",
    "2.23+": "gpu-1:71:71 [0] bootstrap.cc:1 NCCL WARN Bootstrap Root : mismatch in info from procs, nranks 4 vs 8, iroot 0 vs 0",
    "out of range": "gpu-1:71:71 [0] init.cc:1 NCCL WARN Invalid rank requested : 8/8",
    "rank 0 twice, by Init lines": _START.format("gpu-1:71:71", 0, 2)
    + _START.format("gpu-2:81:81", 0, 2),
    "sizes differ, by Init lines": _START.format("gpu-1:71:71", 0, 2)
    + _START.format("gpu-2:81:81", 1, 4),
    "RCCL": "gpu-1:71:71 [0] /src/bootstrap.cc:1 NCCL WARN Bootstrap Root : rank 1 of 4 ranks has already checked in",
}
silent_on = {
    "two ranks": _START.format("gpu-1:71:71", 0, 2) + _START.format("gpu-2:81:81", 1, 2),
    "two communicators of two sizes": _START.format("gpu-1:71:71", 0, 2)
    + _START.format("gpu-2:81:81", 1, 2)
    + _START.format("gpu-1:71:71", 0, 4).replace("0xaa", "0xbb"),
    "START and COMPLETE of one rank": _START.format("gpu-1:71:71", 0, 2)
    + _START.format("gpu-1:71:71", 0, 2).replace("START", "COMPLETE"),
}
