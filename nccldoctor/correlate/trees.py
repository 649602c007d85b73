"""Joins what each rank prints of its place in NCCL's trees to the edges of the trees."""

import re
from collections import defaultdict

from nccldoctor.correlate.seats import seated
from nccldoctor.model.events.nccl import TreeSeats
from nccldoctor.model.job import Job
from nccldoctor.model.topology import TreeEdge

_SEAT = re.compile(
    r"\[(\d{1,4})\] (-?\d{1,7}(?:/-?\d{1,7}){0,15})->(\d{1,7})->(-?\d{1,7})(?![\w/|])"
)
"""`[channel] children->rank->parent`, -1 for none: NCCL 2.6 and later, where no second tree follows behind a bar."""


def edges(job: Job) -> tuple[TreeEdge, ...]:
    """Every pair of parent and child, with the number of channels in whose tree it is; each told by either side."""
    channels: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    for event, _, mine in seated(job, TreeSeats):
        seats = [
            (int(c), below, int(rank), int(up)) for c, below, rank, up in _SEAT.findall(event.seats)
        ]
        own = seats[0][2] if seats else -1
        comm = next((c for c, m in reversed(mine) if m.rank == own), None)
        if comm is None:
            continue
        for channel, below, rank, up in seats:
            pairs = [(rank, int(child)) for child in below.split("/")] + [(up, rank)]
            for parent, child in pairs:
                if min(parent, child) >= 0 and max(parent, child) < comm.size:
                    channels[comm.id, parent, child].add(channel)
    return tuple(
        TreeEdge(ident, parent, child, len(told))
        for (ident, parent, child), told in sorted(channels.items())
    )
