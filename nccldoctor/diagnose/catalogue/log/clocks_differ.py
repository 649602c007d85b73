"""The hosts' clocks disagree, so times of different hosts cannot be compared as they stand.

No rank can be through with setting a communicator up before another has begun. Where the stamps say so, one host's clock
is ahead of the other's by at least the difference. Stamps without a zone from hosts in different zones look the same.
"""

from collections.abc import Iterable
from datetime import datetime

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines
from nccldoctor.model.events.nccl import CommComplete, CommStart
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "LOG04"
name = "clocks-differ"
severity = Severity.NOTE
needs = (Evidence.INFO_LOG,)
explains = ()
confirm = (
    "chronyc tracking  # or timedatectl, on each host: is the clock synchronised, and in which zone?",
)
remedy = (
    "sudo systemctl enable --now chrony  # on each host; costs nothing",
    "export TZ=UTC  # the same zone on all hosts; costs local time in the logs",
)
SURE_SECONDS = 1.5
"""Stamps may be of whole seconds."""


def check(job: Job) -> Iterable[Found]:
    """One finding: the two hosts that disagree most."""
    starts: dict[str, list[CommStart]] = {}
    ends: dict[str, list[CommComplete]] = {}
    for start in job.events(CommStart):
        if start.comm_id and start.speaker.time:
            starts.setdefault(start.comm_id, []).append(start)
    for end in job.events(CommComplete):
        if end.comm_id and end.speaker.time:
            ends.setdefault(end.comm_id, []).append(end)
    worst: tuple[float, CommStart, CommComplete] | None = None
    for comm_id in sorted(starts.keys() & ends.keys()):
        last = max(starts[comm_id], key=lambda e: _time(e.speaker.time))
        first = min(ends[comm_id], key=lambda e: _time(e.speaker.time))
        apart = (_time(last.speaker.time) - _time(first.speaker.time)).total_seconds()
        different = job.host_of(last) != job.host_of(first)
        if different and apart > SURE_SECONDS and (worst is None or apart > worst[0]):
            worst = (apart, last, first)
    if worst is not None:
        apart, last, first = worst
        yield Found(
            title=f"The clock of {job.host_of(last)} is at least {apart:.0f} s ahead of {job.host_of(first)}'s",
            evidence=lines([first, last]),
            hosts=job.hosts_of([first, last]),
        )


def _time(time: datetime | None) -> datetime:
    assert time is not None
    return time


_S = "[2026-11-30 04:{m}] gpu-{h}:7{h}:7{h} [0] NCCL INFO ncclCommInitRank comm 0x5{h} rank {r} nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xaa - Init {w}\n"
fires_on = {
    "2.26+, stamps of NCCL": _S.format(m="00:01", h=1, r=0, w="START")
    + _S.format(m="00:02", h=1, r=0, w="COMPLETE")
    + _S.format(m="01:31", h=2, r=1, w="START")
    + _S.format(m="01:32", h=2, r=1, w="COMPLETE"),
    "2.18, stamps of the container's log": "".join(
        f"2026-11-30T04:{m}.000000Z gpu-{h}:7{h}:7{h} [0] NCCL INFO comm 0x5{h} rank {r} nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xaa - Init {w}\n"
        for m, h, r, w in (
            ("00:01", 1, 0, "START"),
            ("00:02", 1, 0, "COMPLETE"),
            ("05:31", 2, 1, "START"),
            ("05:32", 2, 1, "COMPLETE"),
        )
    ),
}
silent_on = {
    "one was late, the other waited": _S.format(m="00:01", h=1, r=0, w="START")
    + _S.format(m="01:31", h=2, r=1, w="START")
    + _S.format(m="01:32", h=1, r=0, w="COMPLETE")
    + _S.format(m="01:32", h=2, r=1, w="COMPLETE"),
}
