"""Debugging aids are on in a run that works.

A line for each collective fills disks and slows the host side; TORCH_DISTRIBUTED_DEBUG=DETAIL compares every call over
the store before it runs; CUDA_LAUNCH_BLOCKING=1 takes away all overlap. While one looks for a fault that is right, and
then this is only a note. Runs that nccldoctor itself instrumented are not reported.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.settings import Setting, named, on
from nccldoctor.diagnose.words import lines, size
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job, Origin

code = "ENV05"
name = "debug-left-on"
severity = Severity.NOTE
needs = (Evidence.ENVIRONMENT, Evidence.CALLS)
explains = ()
confirm = (
    "du -sh logs; env | grep -E 'NCCL_DEBUG|TORCH_DISTRIBUTED_DEBUG|CUDA_LAUNCH_BLOCKING'  # how much is written, and who asks for it",
)
remedy = (
    "export NCCL_DEBUG=WARN; unset NCCL_DEBUG_SUBSYS  # costs the set-up lines of the next failure",
    "unset TORCH_DISTRIBUTED_DEBUG CUDA_LAUNCH_BLOCKING TORCH_NCCL_BLOCKING_WAIT  # costs their checks; set them again for one run when a fault is looked for",
)
LARGE_JOB = 64
LARGE_LOG_BYTES = 1 << 30


def check(job: Job) -> Iterable[Found]:
    """A warning from 64 ranks or 1 GiB of log on, else a note."""
    if job.instrumented:
        return
    for setting in _costly(job):
        events = [s.event for s in named(job, setting.variable) if s.value == setting.value]
        yield Found(
            title=f"{setting.variable}={setting.value} is set: {_COST[setting.variable]}",
            evidence=lines(events),
            ranks=job.ranks_of(events),
            severity=Severity.WARNING if _large(job) else Severity.NOTE,
            remedy=(f"unset {setting.variable}  # when the fault is found; costs what it told",),
        )
    lanes = [lane for lane in job.lanes if lane.origin is Origin.CALLS and lane.line]
    if lanes:
        volume = sum(s.size_bytes for s in job.sources)
        yield Found(
            title=f"NCCL writes a line for each collective ({size(volume)} of logs in this job)",
            evidence=tuple(lane.line for lane in lanes[:2] if lane.line),
            severity=Severity.WARNING
            if _large(job) or volume >= LARGE_LOG_BYTES
            else Severity.NOTE,
        )


_COST = {
    "TORCH_DISTRIBUTED_DEBUG": "every collective is compared over the store before it runs",
    "CUDA_LAUNCH_BLOCKING": "every kernel launch waits, so nothing overlaps",
    "TORCH_NCCL_BLOCKING_WAIT": "the host waits for each collective, and no watchdog reports time-outs",
    "NCCL_BLOCKING_WAIT": "the host waits for each collective, and no watchdog reports time-outs",
    "NCCL_DEBUG": "NCCL writes all it does",
}


def _costly(job: Job) -> Iterable[Setting]:
    seen = set()
    for setting in named(job, *_COST):
        value = setting.value.upper()
        if setting.variable == "NCCL_DEBUG":
            costly = value == "TRACE"
        elif setting.variable == "TORCH_DISTRIBUTED_DEBUG":
            costly = value == "DETAIL"
        else:
            costly = on(setting)
        if costly and setting.variable not in seen:
            seen.add(setting.variable)
            yield setting


def _large(job: Job) -> bool:
    return (job.world_size or 0) >= LARGE_JOB


_CALL = (
    "gpu-1:71:71 [0] NCCL INFO AllReduce: opCount {n} sendbuff 0x1 recvbuff 0x2 count 4 datatype 7 op 0 root 0 "
    "comm 0x5 [nranks=2] stream 0x3\n"
)
_START = "gpu-1:71:71 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xaa - Init {}\n"
fires_on = {
    "COLL": _START.format("START")
    + _START.format("COMPLETE")
    + _CALL.format(n=0)
    + _CALL.format(n=1),
    "PyTorch": "TORCH_DISTRIBUTED_DEBUG=DETAIL\n",
    "CUDA": "+ export CUDA_LAUNCH_BLOCKING=1\n",
}
silent_on = {
    "level INFO without COLL": _START.format("START") + _START.format("COMPLETE"),
    "off": "TORCH_DISTRIBUTED_DEBUG=OFF\nCUDA_LAUNCH_BLOCKING=0\nNCCL_DEBUG=INFO\n",
}
