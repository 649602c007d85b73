"""The versions and the signs fit a known bug of NCCL, RCCL or PyTorch.

Each entry has a version range, signs that must be in the evidence, and the address where the bug is told of. A version
alone is never reported. That signs fit does not prove the bug: another cause that the report names comes first.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from nccldoctor.diagnose.diagnosis import Found, Sample, told_by
from nccldoctor.diagnose.signs import proof
from nccldoctor.diagnose.words import lines
from nccldoctor.knowledge.environment import numbers
from nccldoctor.knowledge.known_bugs import KNOWN_BUGS, KnownBug
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import Version
from nccldoctor.model.events.ras import RasSnapshot
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "BACKEND08"
name = "known-bug"
severity = Severity.WARNING
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT, Evidence.RAS)
explains = ()
confirm = (
    "python -c 'import torch; print(torch.cuda.nccl.version(), torch.__version__)'  # is this the version that the entry names?",
)
remedy = (
    "pip install -U nvidia-nccl-cu12  # or the version that the finding names; costs a test run before it goes to production",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a bug: a warning when its signs point to it, a note when they are only a hang."""
    versions = list(_running(job))
    for library in ("nccl", "rccl"):
        for bug in KNOWN_BUGS:
            running = [r for r in versions if r.library == bug.library == library and _has(bug, r)]
            if running:
                yield from _match(job, bug, running[0])
    for bug in KNOWN_BUGS:
        if bug.library == "torch":
            yield from _match(job, bug, None)


_PRODUCTS = {"nccl": "NCCL", "rccl": "RCCL", "torch": "PyTorch"}


@dataclass(frozen=True, slots=True)
class _Running:
    library: str
    version: str
    event: Event


def _running(job: Job) -> Iterable[_Running]:
    """What version lines tell, then what RAS says of itself: RCCL's answers begin with its own name."""
    for line in job.events(Version):
        yield _Running(line.library, line.version, line)
    for answer in job.events(RasSnapshot):
        if answer.nccl_version:
            library = "rccl" if answer.line.text.startswith("RCCL") else "nccl"
            yield _Running(library, answer.nccl_version, answer)


def _has(bug: KnownBug, running: _Running) -> bool:
    at = numbers(running.version)
    if bug.since and at < numbers(bug.since):
        return False
    if bug.fixed and at >= numbers(bug.fixed):
        return False
    return not bug.last or at <= numbers(bug.last)


def _match(job: Job, bug: KnownBug, running: _Running | None) -> Iterable[Found]:
    proofs = [proof(job, sign) for sign in bug.signs]
    if not all(proofs):
        return
    events: list[Event] = [p[0] for p in proofs] + ([running.event] if running else [])
    product = _PRODUCTS[bug.library] + (f" {running.version}" if running else "")
    fix = f" (fixed in {bug.fixed})" if bug.fixed else ""
    yield told_by(
        job,
        proofs[0],
        f"{product} has a known bug{fix} that fits: {bug.summary}",
        explanation=f"{__doc__.strip()}\n\nThis one: {bug.source}",
        evidence=lines(events),
        confidence=Confidence.MEDIUM if bug.specific and len(bug.signs) > 1 else Confidence.LOW,
        severity=Severity.WARNING if bug.specific else Severity.NOTE,
        remedy=(*_upgrade(bug), bug.remedy, f"read {bug.source}"),
    )


def _upgrade(bug: KnownBug) -> tuple[str, ...]:
    """The command that brings the version with the fix, or one newer than the last that has the bug."""
    if bug.library != "nccl" or not (bug.fixed or bug.last):
        return ()
    wanted = f">={bug.fixed}" if bug.fixed else f">{bug.last}"
    return (
        f"pip install -U 'nvidia-nccl-cu12{wanted}'  # or -cu13, by torch.version.cuda; costs a test run before it goes to production",
    )


_H = "gpu-1:71:71 [0] NCCL INFO "
_RAS = """NCCL version 2.26.2 compiled with CUDA 12.6

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  MISMATCH

Warnings
========

#0-0 (fa93daea854b060b) MISMATCH
  Communicator ranks have different AllGather operation counts
  30 ranks have launched up to operation {behind}
  2 ranks have launched up to operation {ahead}
  Rank 12 -- GPU 4 managed by process 323032 on node 10.0.0.24
  Rank 13 -- GPU 5 managed by process 323033 on node 10.0.0.24
"""
fires_on = {
    "2.18": _H
    + "NCCL version 2.18.5+cuda12.2\n"
    + "gpu-1:71:71 [0] transport/nvls.cc:165 NCCL WARN Cuda failure 'invalid argument'\n",
    "2.30, the variable and the device": _H
    + "NCCL version 2.30.7+cuda13.0\n"
    + "NCCL_IGNORE_NET_MISMATCH=1\n"
    + "gpu-1:71:71 [0] transport/net_ib.cc:300 (ncclIbInit) NCCL WARN NET/IB : Unable to open device erdma_1\n",
    "2.31.2, uneven hosts": _H
    + "NCCL version 2.31.2+cuda13.3\n"
    + "".join(
        f"gpu-{h}:7{r}:7{r} [{r}] NCCL INFO [Rank {r}] ncclCommInitRank comm 0x{r}5 rank {r} nranks 3 cudaDev {r} nvmlDev {r} busId {r}0 commId 0xaa - Init START\n"
        for h, r in ((1, 0), (1, 1), (2, 2))
    ),
    "RAS lists those ahead": _RAS.format(behind=640, ahead=641),
    "RAS's JSON without a comma": Sample("2.28.9-rank-killed"),
}
silent_on = {
    "a version alone": _H + "NCCL version 2.18.5+cuda12.2\n",
    "RAS lists those behind": _RAS.format(behind=641, ahead=640),
    "the signs, in a version without the bug": _H
    + "NCCL version 2.28.9+cuda13.0\n"
    + "gpu-1:71:71 [0] transport/nvls.cc:165 NCCL WARN Cuda failure 'invalid argument'\n",
}
