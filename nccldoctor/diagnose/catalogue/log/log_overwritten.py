"""Several processes write to one log file name, so that they overwrite or mix each other.

NCCL opens NCCL_DEBUG_FILE anew in each process. Without %p in the name, the last process of a host wins. In containers
all processes may have the same host name and the same pid 1, and then %h and %p are the same for all of them.
"""

from collections import Counter
from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.settings import events_of, named, unique
from nccldoctor.diagnose.words import lines, ranges
from nccldoctor.model.events.nccl import CommStart
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "LOG03"
name = "log-overwritten"
severity = Severity.WARNING
needs = (Evidence.INFO_LOG, Evidence.ENVIRONMENT)
explains = ("LOG01",)
confirm = (
    "echo $NCCL_DEBUG_FILE; hostname; echo $$  # in each container: the same name and pid for all of them?",
)
remedy = (
    "export NCCL_DEBUG_FILE=/logs/nccl_debug_${RANK}_%h_%p.log  # in each rank's own environment; costs nothing",
    "docker run --hostname $(hostname)-$RANK …  # one host name a container, when all have pid 1; costs NVLink and shared memory between them unless NCCL_HOSTID is set alike",
)


def check(job: Job) -> Iterable[Found]:
    """One finding for names without %p, one for processes that cannot be told apart."""
    for setting in unique(named(job, "NCCL_DEBUG_FILE")):
        several = max(Counter(p.host for p in job.processes).values(), default=0) > 1
        to_file = setting.value and not setting.value.startswith("/dev/std")
        if to_file and "%p" not in setting.value and several:
            same = len({s.value for s in named(job, "NCCL_DEBUG_FILE")}) == 1
            if same:
                yield Found(
                    title=f"NCCL_DEBUG_FILE={setting.value} has no %p: processes of one host overwrite each other's log",
                    evidence=lines(events_of([setting])),
                )
    files: dict[tuple[str, int, str], dict[str, CommStart]] = {}
    for event in job.events(CommStart):
        if event.comm_id and event.speaker.pid:
            key = (event.speaker.host or "", event.speaker.pid, event.comm_id)
            files.setdefault(key, {}).setdefault(event.line.file, event)
    for (host, pid, _), by_file in sorted(files.items()):
        ranks = {e.rank for e in by_file.values()}
        if len(by_file) > 1 and len(ranks) > 1:
            yield Found(
                title=f"Ranks {ranges(ranks)} all call themselves {host}:{pid}: their logs cannot be told apart by name",
                evidence=lines(by_file.values()),
                ranks=tuple(sorted(ranks)),
                hosts=(host,),
            )


_H = "gpu-1:7{r}:7{r} [{r}] NCCL INFO ncclCommInitRank comm 0x5{r} rank {r} nranks 2 cudaDev {r} nvmlDev {r} busId 6{r} commId 0xaa - Init COMPLETE\n"
_BOTH = _H.format(r=0) + _H.format(r=1)
fires_on = {
    "the environment": "NCCL_DEBUG_FILE=/tmp/nccl.log\n" + _BOTH,
    "bash -x, the host alone": "+ export NCCL_DEBUG_FILE=/tmp/nccl_%h.log\n" + _BOTH,
}
silent_on = {
    "host and process": "NCCL_DEBUG_FILE=/tmp/nccl_%h_%p.log\n" + _BOTH,
    "one process a host": "NCCL_DEBUG_FILE=/tmp/nccl_%h.log\n"
    + _H.format(r=0)
    + _H.format(r=1).replace("gpu-1", "gpu-2"),
    "standard output": "NCCL_DEBUG_FILE=/dev/stdout\n" + _BOTH,
}
