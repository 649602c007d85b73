"""The first collective takes far longer than the others.

NCCL connects lazily since 2.22: rings and trees are built at the first call, and send/receive pairs at their first use.
Kernels are loaded then too. It happens once a communicator and is no fault; measurements must leave it out.
"""

from collections.abc import Iterable
from statistics import median

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.events.machine import ConnectTimed
from nccldoctor.model.events.measured import BandwidthRow
from nccldoctor.model.events.recorder import RecorderDump
from nccldoctor.model.events.recorder_log import durations
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "PERF02"
name = "first-call-slow"
severity = Severity.NOTE
needs = (Evidence.RECORDER, Evidence.BANDWIDTH, Evidence.INFO_LOG)
explains = ()
confirm = (
    "grep -h 'Connected all\\|connect done\\|Init timings' /tmp/nccl_debug_*  # when NCCL connected, and how long it took",
)
remedy = (
    "dist.all_reduce(torch.ones(1, device='cuda')); torch.cuda.synchronize()  # warm up before measuring; costs the same time, outside of the measurement",
    "export NCCL_RUNTIME_CONNECT=0  # connects at set-up instead; costs the same time earlier, and memory for connections that are never used",
)
TIMES = 10
LEAST_SECONDS = 0.5
LEAST_LATER = 3


def check(job: Job) -> Iterable[Found]:
    """One finding for connections that NCCL itself timed, else one for the slowest first call that was recorded."""
    slow = [e for e in job.events(ConnectTimed) if e.seconds >= LEAST_SECONDS]
    if slow:
        worst = max(slow, key=lambda e: e.seconds)
        yield Found(
            title=f"{who(job, slow)}: connecting at the first send/receive took {worst.seconds:.1f} s",
            evidence=lines([worst, *slow]),
            ranks=job.ranks_of(slow),
        )
        return
    yield from _recorded(job)
    yield from _inspected(job)


def _recorded(job: Job) -> Iterable[Found]:
    for dump in job.events(RecorderDump):
        for (group, op), times in sorted(durations(dump.entries, LEAST_SECONDS).items()):
            what = f"{op} of group {group}"
            if _slow_first(times):
                yield Found(
                    title=f"{who(job, [dump])}: the first {what} took {times[0]:.2f} s, later ones {median(times[1:]):.3f} s",
                    evidence=(dump.line,),
                    ranks=job.ranks_of([dump]),
                )
                return


def _inspected(job: Job) -> Iterable[Found]:
    rows: dict[tuple[str, str, int], list[BandwidthRow]] = {}
    for row in job.events(BandwidthRow):
        if row.origin == "inspector":
            rows.setdefault((row.line.file, row.op, row.size_bytes), []).append(row)
    for (_, op, _), same in sorted(rows.items()):
        times = [r.time_us / 1e6 for r in same]
        if _slow_first(times):
            yield Found(
                title=f"The first {op} took {times[0]:.2f} s, later ones {median(times[1:]):.3f} s",
                evidence=lines(same, 2),
            )
            return


def _slow_first(times: list[float]) -> bool:
    if len(times) <= LEAST_LATER:
        return False
    return times[0] >= LEAST_SECONDS and times[0] >= TIMES * median(times[1:])


_H = "gpu-1:71:71 [0] NCCL INFO "
fires_on = {
    "2.22+": _H + "timings: rank 0 nranks 64 P2P connect done in 2.41\n",
    "2.30+": _H + "timings: rank 3 nranks 512 P2P connect done in 11.07\n",
}
silent_on = {"quick": _H + "timings: rank 0 nranks 2 P2P connect done in 0.02\n"}
