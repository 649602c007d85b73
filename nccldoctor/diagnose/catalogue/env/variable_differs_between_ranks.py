"""A variable has different values on ranks of one job.

Ranks choose algorithm, protocol, channels and buffer sizes each for themselves from the same table; when these
variables differ, ranks disagree on how data is cut, and the job hangs, gives wrong results or happens to work.
Usually one host has another profile, image or NCCL configuration file, or the launcher passes variables to its own
host only. Variables that name things of a host (interfaces, devices, host ids, files) may differ, and are not reported.
"""

from collections.abc import Iterable, Mapping

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.settings import Setting, settings
from nccldoctor.diagnose.words import lines, who_ranks
from nccldoctor.knowledge.scopes import DECIDING, LAZY, PER_HOST
from nccldoctor.model.events.nccl import CommComplete, Diagnostic, EnvironmentSet
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "ENV03"
name = "variable-differs-between-ranks"
severity = Severity.ERROR
needs = (Evidence.ENVIRONMENT,)
explains = ("BUF05", "COLL02", "HANG02", "HANG04", "INIT01", "ENV07", "ENV06")
confirm = (
    "for h in $HOSTS; do ssh $h 'hostname; env | grep NCCL_ | sort; cat /etc/nccl.conf ~/.nccl.conf'; done  # who sets it",
)
remedy = (
    "mpirun -x NCCL_PROTO -x NCCL_ALGO …  # or srun --export=ALL, or set them in the script: the same on every rank; costs nothing",
    "unset NAME  # everywhere, unless all ranks need it; costs nothing",
)

_UNSET = "unset"


def check(job: Job) -> Iterable[Found]:
    """One finding a variable; it names the ranks with the rarer value, or those that set it when it is a draw."""
    by_variable: dict[str, dict[int, Setting]] = {}
    for setting in settings(job):
        process = job.process_of(setting.event)
        if process is not None and setting.variable not in PER_HOST:
            by_variable.setdefault(setting.variable, {}).setdefault(process.id, setting)
    reading = {p.id for e in job.events(EnvironmentSet) if (p := job.process_of(e))}
    ready = {p.id for e in job.events(CommComplete) if (p := job.process_of(e))}
    for variable, found in sorted(by_variable.items()):
        values = {pid: s.value for pid, s in found.items()}
        by_nccl = {pid for pid, s in found.items() if s.read}
        if variable in DECIDING - LAZY and by_nccl and by_nccl <= ready:
            values |= dict.fromkeys(ready - set(values), _UNSET)
        if len(set(values.values())) > 1:
            silent = {pid for pid, v in values.items() if v == _UNSET} - reading
            yield _differs(
                job, variable, values, found, Confidence.MEDIUM if silent else Confidence.HIGH
            )
    yield from _by_nccl_itself(job)


def _differs(
    job: Job,
    variable: str,
    values: Mapping[int, str],
    found: Mapping[int, Setting],
    sure: Confidence,
) -> Found:
    groups: dict[str, list[int]] = {}
    for pid, value in sorted(values.items()):
        groups.setdefault(value, []).append(pid)
    usual = max(groups, key=lambda v: (len(groups[v]), v == _UNSET, v))
    odd = [pid for value, pids in groups.items() if value != usual for pid in pids]
    if len(set(map(len, groups.values()))) == 1 and _UNSET not in groups:
        odd = list(values)
    processes = [job.processes[pid] for pid in odd]
    ranks = tuple(sorted({p.rank for p in processes if p.rank is not None}))
    hosts = tuple(sorted({p.host for p in processes if p.host}))
    told = "; ".join(
        f"{value} on {_where(job, pids)}"
        for value, pids in sorted(groups.items(), key=lambda g: len(g[1]))
    )
    shown = [found[pid].event for pid in odd if pid in found]
    shown += [s.event for pid, s in sorted(found.items()) if pid not in odd]
    return Found(
        title=f"{who_ranks(ranks, hosts, 'Some ranks')}: {variable} differs inside the job ({told})",
        evidence=lines(shown),
        ranks=ranks,
        hosts=hosts,
        confidence=sure,
        severity=Severity.ERROR if variable in DECIDING else Severity.WARNING,
        remedy=(
            f"export {variable}=…  # the same on every rank, or unset it everywhere; costs nothing",
            confirm[0],
            remedy[0],
        ),
    )


def _where(job: Job, pids: list[int]) -> str:
    ranks = [r for pid in pids if (r := job.processes[pid].rank) is not None]
    text = who_ranks(ranks, ())
    return (
        f"{len(pids)} ranks" if len(pids) > 8 else (text[0].lower() + text[1:] if ranks else "some")
    )


def _by_nccl_itself(job: Job) -> Iterable[Found]:
    """NCCL 2.31 and later compare the environments themselves when asked to."""
    for event in job.events(Diagnostic):
        if event.check.strip() != "NCCL environment" or not event.text.startswith("mismatch"):
            continue
        variable = event.text.rpartition(" for ")[2].strip()
        if variable not in PER_HOST and variable.isupper():
            yield Found(
                title=f"{variable} differs between ranks, as NCCL's own check says",
                evidence=(event.line,),
                severity=Severity.ERROR if variable in DECIDING else Severity.WARNING,
            )


def _two(first: str, second: str) -> str:
    """Two ranks that come up, each with lines of its own."""
    comm = "ncclCommInitRank comm 0x5{r} rank {r} nranks 2 cudaDev {r} nvmlDev {r} busId 6{r} commId 0xaa - Init COMPLETE\n"
    text = ""
    for rank, own in enumerate((first, second)):
        head = f"gpu-1:7{rank}:7{rank} [{rank}] NCCL INFO "
        text += (
            "".join(f"{head}{line}\n" for line in own.split("\n") if line)
            + head
            + comm.format(r=rank)
        )
    return text


fires_on = {
    "2.10+": _two("NCCL_PROTO set by environment to Simple", "NCCL_PROTO set by environment to LL"),
    "one rank only": _two(
        "NCCL_NVLS_ENABLE set by environment to 0.",
        "NCCL_NVLS_ENABLE set by environment to 0.\nNCCL_MIN_NCHANNELS set by environment to 4.",
    ),
    "2.31+, NCCL's own check": (
        "gpu-1:81 NCCL DIAG [INFO] NCCL environment: mismatch across 8 ranks in comm 0x1f924f1c54e68bd1 for NCCL_ALGO\n"
    ),
}
silent_on = {
    "names of things of a host": _two(
        "NCCL_SOCKET_IFNAME set by environment to eth0\nNCCL_HOSTID set by environment to a",
        "NCCL_SOCKET_IFNAME set by environment to ens5\nNCCL_HOSTID set by environment to b",
    ),
    "the same": _two(
        "NCCL_PROTO set by environment to Simple", "NCCL_PROTO set by environment to Simple"
    ),
    "2.31+, host ids": (
        "gpu-1:81 NCCL DIAG [INFO] NCCL environment: mismatch across 8 ranks in comm 0x1f924f1c54e68bd1 for NCCL_HOSTID\n"
    ),
}
