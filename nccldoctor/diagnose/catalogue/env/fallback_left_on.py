"""Emergency settings are still set in a run that works.

NCCL_MAX_NCHANNELS=1 with NCCL_BUFFSIZE=16777216, and a forced NCCL_ALGO or NCCL_PROTO are handed
around as cures for hangs. They make most jobs run and all of them slow: on 2 x H200 the first pair takes all-reduce
from 327 to 22 GB/s bus bandwidth. A setting that was measured and wanted is not a fault; say so with --ignore ENV07.
The clouds' network plugins (EFA, TCPX, FasTrak, gIB) prescribe some of them; under those they are not reported.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.settings import Setting, number, settings, unique, works
from nccldoctor.diagnose.usual import expected
from nccldoctor.diagnose.words import lines, who
from nccldoctor.knowledge.clouds import cloud_of_network
from nccldoctor.knowledge.values import problem
from nccldoctor.model.events.nccl import NetworkChosen
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "ENV07"
name = "fallback-left-on"
severity = Severity.WARNING
needs = (Evidence.ENVIRONMENT,)
explains = ("BUF02", "BUF03", "TOPO07", "PERF01", "PERF04")
confirm = ("nccldoctor probe  # bus bandwidth with and without them",)
remedy = (
    "unset NCCL_MAX_NCHANNELS NCCL_BUFFSIZE NCCL_ALGO NCCL_PROTO  # costs nothing unless the fault that they hid comes back: then mend that one",
)
FEW_CHANNELS = 2
LARGE_BUFFER = 16 << 20


def check(job: Job) -> Iterable[Found]:
    """One finding for all such settings together, with what they cost where that was measured."""
    if not works(job):
        return
    wanted = _PLUGIN_WANTS if _plugin(job) else ()
    found = [s for s in settings(job) if is_fallback(s) and s.variable not in wanted]
    if not found:
        return
    names = " ".join(sorted(f"{s.variable}={s.value}" for s in unique(found)))
    events = [s.event for s in found]
    throttled = any(s.variable in _CHANNELS for s in found)
    normal = expected(job) if throttled else None
    price = "NCCL cannot choose what fits each size"
    if throttled:
        few = (
            f"{normal}, which" if normal and normal.here < normal.usual.channels else "one channel"
        )
        price = f"{few} costs most of the bandwidth (measured on 2 x H200: 327 to 22 GB/s)"
    yield told_by(
        job,
        events,
        f"{who(job, events, 'The job')}: fallback settings are on, {names}: {price}",
        evidence=(*lines([s.event for s in unique(found)]), *([normal.line] if normal else [])),
        confidence=Confidence.HIGH if throttled or len(unique(found)) > 1 else Confidence.MEDIUM,
        remedy=(
            f"unset {' '.join(sorted({s.variable for s in found}))}  # costs nothing unless the fault that they hid comes back: then mend that one",
            confirm[0],
        ),
    )


_PLUGIN_WANTS = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_BUFFSIZE")


def _plugin(job: Job) -> bool:
    """Does a cloud's plugin carry the traffic? Those prescribe algorithm, protocol and buffers."""
    return any(cloud_of_network(e.network) for e in job.events(NetworkChosen))


_CHANNELS = ("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_MAX_NRINGS")


def is_fallback(setting: Setting) -> bool:
    """Is this one of the emergency settings that articles hand around?"""
    value = number(setting)
    if setting.variable in _CHANNELS:
        return value is not None and 0 < value <= FEW_CHANNELS
    if setting.variable == "NCCL_BUFFSIZE":
        return value is not None and value >= LARGE_BUFFER
    if setting.variable in ("NCCL_ALGO", "NCCL_PROTO"):
        one = "," not in setting.value and not setting.value.startswith("^")
        return bool(setting.value) and one and problem(setting.variable, setting.value) is None
    return False


_H = "gpu-1:71:71 [0] NCCL INFO "
_UP = _H + "{} rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xaa - Init COMPLETE\n"
fires_on = {
    "2.23+": _H
    + "NCCL_MAX_NCHANNELS set by environment to 1.\n"
    + _H
    + "NCCL_BUFFSIZE set by environment to 16777216.\n"
    + _UP.format("ncclCommInitRankConfig comm 0x5"),
    "2.18": _H + "NCCL_PROTO set by environment to Simple\n" + _UP.format("comm 0x5"),
}
silent_on = {
    "did not work": _H + "NCCL_PROTO set by environment to Simple\n",
    "a cloud's plugin wants it": _H
    + "NCCL_PROTO set by environment to simple\n"
    + _H
    + "Using network AWS Libfabric\n"
    + _UP.format("ncclCommInitRank comm 0x5"),
    "excludes one": _H
    + "NCCL_ALGO set by environment to ^NVLS\n"
    + _UP.format("ncclCommInitRank comm 0x5"),
    "plenty": _H
    + "NCCL_MAX_NCHANNELS set by environment to 32.\n"
    + _UP.format("ncclCommInitRank comm 0x5"),
}
