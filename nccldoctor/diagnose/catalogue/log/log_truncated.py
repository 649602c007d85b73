"""A log is empty, or lines in it are torn.

Processes that are killed leave half a line; several writers on one stream cut each other's lines; a full disk ends
all logs at once. What is lost is not judged.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import some
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.source import LACKS_MIDDLE, Kind, Line, Source

code = "LOG02"
name = "log-truncated"
severity = Severity.NOTE
needs: tuple[Evidence, ...] = ()
explains = ()
confirm = (
    "df -h /tmp; ls -la /tmp/nccl_debug_*  # is the disk full where the logs are written? which file is empty?",
)
remedy = (
    "export NCCL_DEBUG_FILE=/tmp/nccl_debug_%h_%p.log  # one writer a file, so that lines stay whole; costs collecting them",
)


def check(job: Job) -> Iterable[Found]:
    """One finding for empty files, one for torn lines, one for logs without their middle."""
    empty = [s for s in job.sources if s.kind is Kind.EMPTY]
    if empty:
        yield _found(f"{len(empty)} empty file{'s' * (len(empty) != 1)}", empty)
    torn = [s for s in job.sources if "torn line" in s.note]
    if torn:
        yield _found("Torn lines in", torn)
    holed = [s for s in job.sources if LACKS_MIDDLE in s.note]
    if holed:
        yield _found("The middle was left out, and calls cannot be counted, in", holed)


def _found(what: str, sources: list[Source]) -> Found:
    names = some([s.path.rpartition("/")[2] for s in sources])
    joined = f"{what} {names}" if what.endswith("in") else f"{what}: {names}"
    return Found(
        title=joined,
        evidence=tuple(Line(s.path, 0, s.note or "empty file") for s in sources[:4]),
    )


_CALL = "gpu-1:71:71 [0] NCCL INFO AllReduce: opCount {n} sendbuff 0x7f10 recvbuff 0x7f20 count 1024 datatype 7 op 0 root 0 comm 0x55d5 [nranks=2] stream 0x3\n"
fires_on = {
    "an empty file": "",
    "nccldoctor's own limit": _CALL.format(n=0)
    + "[nccldoctor: 1,234,567 bytes left out here]\n"
    + _CALL.format(n=9),
    "a killed writer": _CALL.format(n=0) + _CALL.format(n=1) + _CALL.format(n=2)[:95] + "\n",
}
silent_on = {"whole": _CALL.format(n=0) + _CALL.format(n=1)}
