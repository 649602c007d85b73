"""The files hold more than one job, or more than one attempt of a job.

Each is analysed apart. Old logs in the same folder, restarts by the launcher, and two jobs in one output file look like
this; a finding then says of which job it is by its lines.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines
from nccldoctor.model.events.nccl import CommStart
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "LOG06"
name = "several-jobs-in-input"
severity = Severity.NOTE
needs = (Evidence.INFO_LOG, Evidence.NCCL_LOG)
explains = ()
confirm = (
    "ls -lt LOGS | head; grep -ho 'commId 0x[0-9a-f]*' LOGS/* | sort | uniq -c  # which files belong together",
)
remedy = (
    "export NCCL_DEBUG_FILE=/logs/$SLURM_JOB_ID/nccl_debug_%h_%p.log  # one folder a job; costs nothing",
    "nccldoctor parse FILES-OF-ONE-ATTEMPT  # when only one of them matters; costs nothing",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a job."""
    events = job.events(CommStart)
    if job.siblings > 1 and events:
        ranks = f"{job.world_size} ranks" if job.world_size else "ranks"
        yield Found(
            title=f"One of {job.siblings} jobs in the input: {ranks}, from {events[0].line.file.rpartition('/')[2]}",
            evidence=lines(events, 1),
        )


_H = "gpu-1:{p}:{p} [{r}] NCCL INFO ncclCommInitRank comm 0x{p} rank {r} nranks 2 cudaDev {r} nvmlDev {r} busId 6{r} commId 0x{c} - Init {w}\n"


def _attempt(first_pid: int, comm: str) -> str:
    return "".join(
        _H.format(p=first_pid + r, r=r, c=comm, w=w) for w in ("START", "COMPLETE") for r in (0, 1)
    )


fires_on = {
    "2.21-2.28, a restart": _attempt(71, "aa") + _attempt(91, "bb"),
    "2.18": (_attempt(71, "aa") + _attempt(91, "bb")).replace("ncclCommInitRank comm", "comm"),
}
silent_on = {"one": _attempt(71, "aa")}
