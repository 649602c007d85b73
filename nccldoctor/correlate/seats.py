"""Which communicators a process had joined when it wrote a line."""

from collections.abc import Iterator
from typing import TypeVar

from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import CommComplete, CommStart
from nccldoctor.model.job import Communicator, Job, Member, Process

E = TypeVar("E", bound=Event)
Seats = list[tuple[Communicator, Member]]
"""What a process has joined, in the order of its Init lines."""


def seated(job: Job, *kinds: type[E]) -> Iterator[tuple[E, Process | None, Seats]]:
    """The events of these kinds in the order of the lines, each with its process and what that had joined by then."""
    places = {
        (m.process, m.comm): (c, m)
        for c in job.communicators
        for m in c.members
        if m.process is not None and m.comm is not None
    }
    joined: dict[int, Seats] = {}
    for event in job.all_events():
        if not isinstance(event, (CommStart, CommComplete, *kinds)):
            continue
        process = job.process_of(event)
        mine = joined.setdefault(process.id if process else -1, [])
        if isinstance(event, CommStart):
            place = places.get((process.id if process else -1, event.comm))
            if place is not None and place not in mine:
                mine.append(place)
        elif isinstance(event, kinds):
            yield event, process, mine
