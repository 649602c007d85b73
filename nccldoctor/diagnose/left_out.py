"""In a circle of waits, the rank that left out a call: it came to the same call as others with one call fewer behind it."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from nccldoctor.diagnose.standing import Node, Wait, node
from nccldoctor.model.job import Job, Origin

Cycle = Sequence[tuple[Node, Wait, Node]]


class Skipper(NamedTuple):
    """Who left out a call, in which call it now waits, and beside whom."""

    who: Node
    wait: Wait
    beside: Node


def skipper(job: Job, cycle: Cycle) -> Skipper | None:
    """The only rank of the circle that may have left out a call; None where nobody or several may have.

    Ranks of one program that wait in one call of a communicator have made as many collectives before it, over all their
    communicators, whatever these are; in a circle of three or more only one breaks the rule.
    """
    if len(cycle) < 3:
        return None
    inside = {source for source, _, _ in cycle}
    found = []
    for source, wait, _ in cycle:
        totals = _totals(job, wait.standing.origin)
        others = [n for rank in wait.waiting if (n := node(wait.communicator, rank)) not in inside]
        if others and {totals[n] for n in others} == {totals[source] + 1}:
            found.append(Skipper(source, wait, others[0]))
    return found[0] if len(found) == 1 else None


def _totals(job: Job, origin: Origin) -> Counter[Node]:
    """Collectives issued by each process, over all its communicators."""
    totals: Counter[Node] = Counter()
    for lane in job.lanes:
        if lane.origin is origin:
            totals[node(job.communicator(lane.communicator), lane.rank)] += lane.issued
    return totals
