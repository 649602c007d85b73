"""What the store's keys tell of the creation of process groups: who waits in which group, and for whose key.

PyTorch numbers the groups on each rank, and a group's keys carry that number: `/default_pg/0//2//cpu//0/3` is what rank 3
of group 2 should have written. A rank that left out a `new_group` writes its keys under lower numbers from then on.
"""

from collections.abc import Sequence, Set

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import nth, ranges, who_ranks
from nccldoctor.model.event import Event
from nccldoctor.model.events.torch import GlooError, PythonException, StoreTimeout
from nccldoctor.model.finding import Confidence
from nccldoctor.model.job import Job
from nccldoctor.model.source import Line


def out_of_step(job: Job) -> Found | None:
    """The group of the lowest number in whose creation ranks waited in vain, and who did not come to it."""
    waiting: dict[int, dict[int, StoreTimeout]] = {}
    for event in job.events(StoreTimeout):
        rank = job.rank_of(event)
        if event.group is not None and event.member is not None and rank is not None:
            waiting.setdefault(event.group, {}).setdefault(rank, event)
    if not waiting:
        return None
    first = min(waiting)
    later = {rank: number for number in waiting if number > first for rank in waiting[number]}
    came, events = sorted(waiting[first]), list(waiting[first].values())
    beyond = [r for r in sorted(later) if r not in came]
    absent = _absent(job, came, {e.member for e in events if e.member is not None})
    if beyond and set(absent) <= set(beyond) and len(beyond) > len(came):
        culprits, title = came, _behind(job, came, first, beyond, later)
    else:
        culprits, title = absent, _missed(job, absent, came, first, events, beyond)
    shown = [*events[:2], *(waiting[later[r]][r] for r in beyond[:2])]
    return Found(
        title=title,
        evidence=tuple(dict.fromkeys([*(e.line for e in shown), *_elsewhere(job, absent)])),
        confidence=Confidence.MEDIUM,
        ranks=tuple(culprits),
        hosts=job.hosts_of_ranks(culprits),
        explanation=(
            "Every rank must call new_group for every group, member or not, in the same order: PyTorch numbers the groups on "
            "each rank, and looks for its peers under that number. A rank that left one out, or came too late or not at all, "
            "is not found there."
        ),
    )


def _behind(
    job: Job, came: Sequence[int], number: int, beyond: Sequence[int], later: dict[int, int]
) -> str:
    others = f"rank{'s' * (len(beyond) > 1)} {ranges(beyond)} {'are' if len(beyond) > 1 else 'is'}"
    return (
        f"{who_ranks(came, job.hosts_of_ranks(came))} {_creates(came)} the {nth(number)} process group while {others} already "
        f"at the {nth(max(later[r] for r in beyond))}: a new_group was left out there, or is called too often elsewhere"
    )


def _missed(
    job: Job,
    absent: Sequence[int],
    came: Sequence[int],
    number: int,
    events: Sequence[StoreTimeout],
    beyond: Sequence[int],
) -> str:
    if absent:
        who = who_ranks(absent, job.hosts_of_ranks(absent))
    else:
        who = f"Member {ranges({e.member for e in events if e.member is not None})} of the group"
    stand = f"rank{'s' * (len(came) > 1)} {ranges(came)} waited"
    further = " (it is creating a later one)" if absent and set(absent) <= set(beyond) else ""
    return f"{who} did not come to new_group of the {nth(number)} process group, in which {stand}{further}"


def _creates(ranks: Sequence[int]) -> str:
    return "create" if len(ranks) > 1 else "creates"


def _absent(job: Job, came: Sequence[int], members: Set[int]) -> list[int]:
    """The global ranks of these members of a group, from those that waited.

    The group's ranks must lie at equal distances, as the whole job and tensor and data parallel groups do: else some
    members may have said nothing, and nobody can be named.
    """
    seats = [seat for seat in range(len(came) + len(members)) if seat not in members]
    if len(came) == 1:
        others = {p.rank for p in job.processes if p.rank is not None} - set(came)
        return sorted(others) if len(others) == 1 == len(members) else []
    if len(seats) != len(came):
        return []
    distance, rest = divmod(came[1] - came[0], seats[1] - seats[0])
    first = came[0] - seats[0] * distance
    fits = all(rank == first + seat * distance for rank, seat in zip(came, seats, strict=True))
    return [first + m * distance for m in sorted(members)] if fits and not rest else []


def _elsewhere(job: Job, ranks: Sequence[int]) -> list[Line]:
    failed: list[Event] = [*job.events(GlooError), *job.events(PythonException)]
    return [e.line for e in failed if job.rank_of(e) in ranks][:1]
