"""When things happened on one clock: stamps without a year completed, and hosts whose clock is off set right."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from statistics import median

from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import CommComplete, CommStart
from nccldoctor.model.events.recorder import RecorderDump
from nccldoctor.model.events.recorder_log import first_created
from nccldoctor.model.job import Job

_GLOG = re.compile(
    r"\[[IWEF](?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)\.(?P<part>\d{3,9}) "
)
_SURE_SECONDS = 1.5
"""Stamps may be of whole seconds."""


class Clocks:
    """Reads the time of an event, on the clock of the host that most others agree with."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._year = _year(job)
        self.ahead: Mapping[str, float] = _ahead(job)

    def time(self, event: Event) -> datetime | None:
        """The event's time in UTC, None where nothing tells it; PyTorch's stamps borrow the year of the others."""
        when = event.speaker.time or self._glog(event.line.text)
        if when is None:
            return None
        off = self.ahead.get(self._job.host_of(event) or "", 0.0)
        return when - timedelta(seconds=off)

    def _glog(self, text: str) -> datetime | None:
        found = _GLOG.search(text[:300])
        if found is None or self._year is None:
            return None
        stamp = (
            f"{self._year}-{found['month']}-{found['day']}T{found['clock']}.{found['part'][:6]:0<6}"
        )
        try:
            return datetime.fromisoformat(stamp).replace(tzinfo=timezone.utc)
        except ValueError:
            return None


def _year(job: Job) -> int | None:
    """The year of the first event that has one, else of the first recorded operation."""
    first = job.first_time()
    if first is not None:
        return first.year
    told = (first_created(dump.entries) for dump in job.events(RecorderDump))
    recorded = [created for created in told if created is not None]
    return datetime.fromtimestamp(min(recorded), timezone.utc).year if recorded else None


def _ahead(job: Job) -> dict[str, float]:
    """Host → seconds that its clock is ahead, only for hosts whose stamps are impossible beside the others'.

    No rank is through with setting a communicator up before the last has begun, and all are through at nearly the same
    moment: the first tells that a clock is off, the second by how much.
    """
    begun = _by_host(job, job.events(CommStart))
    through = _by_host(job, job.events(CommComplete))
    gaps: dict[str, list[float]] = {}
    for ident, ends in through.items():
        starts = begun.get(ident, {})
        hosts = sorted(ends.keys() & starts.keys())
        if len(hosts) < 2:
            continue
        usual = median(min(ends[h]) for h in hosts)
        reference = min(hosts, key=lambda h: (abs(min(ends[h]) - usual), h))
        for host in hosts:
            early = max(starts[host]) - min(ends[reference])
            late = max(starts[reference]) - min(ends[host])
            if max(early, late) > _SURE_SECONDS:
                gaps.setdefault(host, []).append(min(ends[host]) - min(ends[reference]))
    return {host: round(median(found), 1) for host, found in sorted(gaps.items())}


def _by_host(
    job: Job, events: Sequence[CommStart] | Sequence[CommComplete]
) -> dict[str, dict[str, list[float]]]:
    """Communicator → host → times in seconds."""
    result: dict[str, dict[str, list[float]]] = {}
    for event in events:
        host = job.host_of(event)
        if event.comm_id and event.speaker.time is not None and host:
            times = result.setdefault(event.comm_id, {}).setdefault(host, [])
            times.append(event.speaker.time.timestamp())
    return result
