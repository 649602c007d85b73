"""The job has more ranks than there are logs.

What is missing cannot be judged: a hang of a rank without a log shows only through the others. When the missing logs are
known to be missing (one host of many), say so with --partial. NCCL_DEBUG_FILE writes on each host: the files
must be collected from all of them.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.excerpts import begins_inside
from nccldoctor.diagnose.words import ranges
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Communicator, Evidence, Job
from nccldoctor.model.source import Line

code = "LOG01"
name = "ranks-without-log"
severity = Severity.WARNING
needs = (Evidence.INFO_LOG,)
explains = ()
confirm = (
    "ls logs | wc -l; grep -ho 'nranks [0-9]*' logs/* | sort | uniq -c  # how many there are, and how many there should be",
)
remedy = (
    "export NCCL_DEBUG_FILE=/shared/nccl_debug_%h_%p.log  # a folder that all hosts share; else collect from each host; costs disk space there",
    "nccldoctor run train.py  # collects all ranks' logs into one folder; costs less than the noise between runs",
    "nccldoctor parse --partial PATH…  # when only these logs are to be looked at; costs the checks that need all ranks",
)


def check(job: Job) -> Iterable[Found]:
    """One finding, on the largest communicator with ranks that nothing was heard of."""
    if job.partial:
        return
    excerpt = begins_inside(job)
    for comm in sorted(job.communicators, key=lambda c: -c.size):
        missing = [m.rank for m in comm.members if m.process is None and m.stage is None]
        line = _proof(comm)
        if not missing and comm.size == job.world_size:
            return  # a smaller communicator then lacks a line, not a log
        if not missing or line is None or _strays(job, comm) >= len(missing):
            continue
        ranks = [r for m in missing if (r := job.global_rank(comm.id, m)) is not None]
        known = len(ranks) == len(missing)
        whose = "" if known else f" of {comm.name}"
        yield Found(
            title=f"No log of rank{'s' * (len(missing) != 1)} {ranges(ranks if known else missing)}{whose}: "
            f"{comm.size - len(missing)} of {comm.size} ranks were heard of",
            evidence=(line,),
            ranks=tuple(ranks) if known else tuple(missing),
            confidence=Confidence.LOW if excerpt else Confidence.HIGH,
            severity=Severity.NOTE if excerpt else None,
        )
        return


def _strays(job: Job, comm: Communicator) -> int:
    """Processes with a log and no seat here: a lost line of the set-up takes a seat away, and not the log."""
    seated = {m.process for m in comm.members}
    return sum(p.pid is not None and p.id not in seated for p in job.processes)


def _proof(comm: Communicator) -> Line | None:
    return next((m.start for m in comm.members if m.start is not None), None)


_H = "gpu-1:7{r}:7{r} [{r}] NCCL INFO ncclCommInitRank comm 0x5{r} rank {r} nranks {n} cudaDev {r} nvmlDev {r} busId 6{r} commId 0xaa - Init {w}\n"
_BOTH = "".join(_H.format(r=r, n="{n}", w=w) for w in ("START", "COMPLETE") for r in (0, 1))
_BEGUN = "".join(f"gpu-1:7{r}:7{r} [{r}] NCCL INFO cudaDriverVersion 13000\n" for r in (0, 1))
fires_on = {
    "2.21-2.28": _BEGUN + _BOTH.format(n=8),
    "2.18": _BEGUN + _BOTH.format(n=4).replace("ncclCommInitRank comm", "comm"),
}
silent_on = {
    "all there": _BOTH.format(n=2),
    "cut out of the middle of a log": _BOTH.format(n=8),
}
