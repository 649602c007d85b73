"""Building a communicator takes far longer than usual for its size.

NCCL 2.22 and later say how long set-up took and in which part. `bootstrap` and `allgathers` are mostly waiting: the
ranks with the *smallest* share came last. `kernels` is loading the library's code (a slow file system, lazy loading
from many processes), `topo` and `graphs` the search through the machine, `connections` the transports.
Not a fault: seconds. Thousands of ranks need more than eight; the limit here grows with the number of ranks.
"""

import re
from collections.abc import Iterable, Mapping

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.words import lines, ranges
from nccldoctor.model.events.nccl import InitTimings
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "INIT09"
name = "init-slow"
severity = Severity.WARNING
needs = (Evidence.INFO_LOG,)
explains = ()
look_first = True
confirm = (
    "grep -h 'Init timings' /tmp/nccl_debug_*  # which part: bootstrap and allgathers wait for late ranks, kernels load the library, topo and graphs search",
)
remedy = (
    "dist.init_process_group('nccl', device_id=torch.device('cuda', local_rank))  # many groups: splits then share the parent's set-up; costs an eager connection at start",
    "cp -r /nfs/env /tmp/env  # kernels: libnccl and libtorch on local disk, not on a network file system; costs the copy, once a host",
    "export NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml  # graphs or topo, on virtual machines: the cloud's file; costs nothing",
    "time python -c 'import train'  # bootstrap: what the late ranks do before init_process_group (data, checkpoint, image pull) belongs after it; costs a change in the program",
)

_PART = re.compile(r"([a-z]{1,30}) ([\d.]+)")
_BASE_SECONDS = 20.0
_SECONDS_PER_RANK = 0.05


def check(job: Job) -> Iterable[Found]:
    """One finding a size of communicator: the slowest, its greatest part, and who came last."""
    by_size = apart(job.events(InitTimings), lambda event: event.nranks)
    for nranks, events in sorted(by_size.items(), reverse=True):
        slowest = max(events, key=lambda e: (e.total, -e.rank))
        if slowest.total > _BASE_SECONDS + _SECONDS_PER_RANK * nranks:
            yield _found(job, slowest, events)


def _found(job: Job, slowest: InitTimings, events: list[InitTimings]) -> Found:
    parts = _parts(slowest)
    greatest = max(parts, key=lambda name: (parts[name], name), default="")
    where = f", {parts[greatest]:.0f} s of it in {greatest}" if greatest else ""
    late = _late(slowest, events) if greatest in ("bootstrap", "allgathers") else []
    waited = f"; rank {ranges(e.rank for e in late)} came last" if late else ""
    shown = late or [slowest]
    return told_by(
        job,
        shown,
        f"Setting up a communicator of {slowest.nranks} ranks took {slowest.total:.0f} s{where}{waited}",
        evidence=lines([slowest, *late]),
        confidence=Confidence.HIGH,
    )


def _late(slowest: InitTimings, events: list[InitTimings]) -> list[InitTimings]:
    """Those that waited for nobody: a total under a fifth of the slowest's."""
    found = [e for e in events if e.total < slowest.total / 5]
    return sorted(found, key=lambda e: e.rank) if len(found) <= len(events) // 2 else []


def _parts(event: InitTimings) -> Mapping[str, float]:
    return {name: float(seconds) for name, seconds in _PART.findall(event.parts)}


_TIMES = (
    "gpu-{0}:7{0}:7{0} [0] NCCL INFO Init timings - ncclCommInitRankConfig: rank {0} nranks 4 total {1} (kernels 0.42, alloc 0.01, "
    "bootstrap {2}, allgathers 0.00, topo 0.08, graphs 0.00, connections 0.01, rest 0.00)\n"
)

fires_on = {
    "2.23+, one rank late": "".join(_TIMES.format(r, 61.5, 60.9) for r in (0, 1, 2))
    + _TIMES.format(3, 0.6, 0.1),
    "2.22, slow graphs": (
        "gpu-1:71:71 [0] NCCL INFO Init timings: rank 0 nranks 2 total 48.10 (kernels 0.42, bootstrap 0.01, allgathers 0.00, "
        "topo 0.08, graphs 47.50, connections 0.01, rest 0.00)\n"
    ),
}
silent_on = {
    "half a second": _TIMES.format(0, 0.53, 0.01),
    "two seconds": _TIMES.format(0, 1.86, 0.9),
}
