"""NCCL's trees: each rank's line joined to edges, in the words of 2.6 and later, with RCCL's tail, and cut."""

import pytest

from nccldoctor.correlate import trees
from nccldoctor.model.events.nccl import CommStart, TreeSeats
from nccldoctor.model.job import Communicator, Job, Member, Process
from nccldoctor.model.source import NOBODY, Line
from nccldoctor.model.topology import TreeEdge

_LINE = Line("a.log", 1, "")


def _edges(*seats: str) -> tuple[TreeEdge, ...]:
    """The edges of one communicator of as many ranks as there are lines."""
    ranks = range(len(seats))
    members = tuple(Member(r, r, r, f"0x{r}") for r in ranks)
    events = []
    for rank, told in enumerate(seats):
        start = CommStart(
            line=_LINE, speaker=NOBODY, comm=f"0x{rank}", rank=rank, nranks=len(seats)
        )
        events += [(start, rank), (TreeSeats(line=_LINE, speaker=NOBODY, seats=told), rank)]
    processes = [Process(r, "h", 10 + r, r) for r in ranks]
    comms = [Communicator("0xab", "world", len(seats), members)]
    return trees.edges(Job(processes=processes, communicators=comms, events=events))


def test_both_sides_tell_of_one_edge() -> None:
    told = _edges("[0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->1", "[0] -1/-1/-1->1->0 [1] 0/-1/-1->1->-1")
    assert told == (TreeEdge("0xab", 0, 1, 1), TreeEdge("0xab", 1, 0, 1))


@pytest.mark.parametrize(
    "seats",
    [
        "[0] 1/2/-1->0->-1 [1] 1/2",
        "[0] 1/2/-1->0->-1 comm 0x7f1 nRanks 03 busId c1000",
    ],
)
def test_a_parent_alone_tells_its_children(seats: str) -> None:
    told = _edges(seats, "", "")
    assert told == (TreeEdge("0xab", 0, 1, 1), TreeEdge("0xab", 0, 2, 1))


@pytest.mark.parametrize("seats", ["[0] 4->6->7/-1/-1", "[0] 1/-1->0->-1|0->1->2/-1", "", "[0]"])
def test_older_words_tell_nothing(seats: str) -> None:
    assert _edges(seats, seats, seats) == ()
