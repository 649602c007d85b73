"""The rank that should have put NCCL's id of a group into the store, and never came to the group's first collective."""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines, ranges, who_ranks
from nccldoctor.model.events.torch import IdAwaited
from nccldoctor.model.finding import Confidence
from nccldoctor.model.job import Job


def without_id(job: Job) -> Iterable[Found]:
    """One finding: NCCL communicators are set up at the first collective, and the group's first rank makes the id."""
    groups: dict[int | None, list[IdAwaited]] = {}
    for event in job.events(IdAwaited):
        groups.setdefault(event.group, []).append(event)
    if not groups:
        return
    group, events = max(groups.items(), key=lambda item: len(item[1]))
    root = _root(job, group, events)
    named = [] if root is None else [root]
    what = "the default process group" if group is None else f"process group {group}"
    waiting = job.ranks_of(events)
    others = (
        f"rank{'s' * (len(waiting) > 1)} {ranges(waiting)} waited" if waiting else "others waited"
    )
    yield Found(
        title=(
            f"{who_ranks(named, job.hosts_of_ranks(named), f'Rank {events[0].root} of {what}')} never came to the first "
            f"collective of {what}: {others} in vain for NCCL's id, which it makes"
        ),
        evidence=lines(events),
        confidence=Confidence.MEDIUM,
        ranks=tuple(named),
        hosts=job.hosts_of_ranks(named),
        explanation=(
            "PyTorch sets up a group's NCCL communicator at its first collective; the first rank of the group makes the id "
            "and leaves it in the store. It has died, stands elsewhere, or counts its groups differently."
        ),
    )


def _root(job: Job, group: int | None, events: list[IdAwaited]) -> int | None:
    """The global rank of the group's root: its own in the default group, else by the distance of those that waited."""
    if group is None:
        return events[0].root
    told = {e.group_rank: rank for e in events if (rank := job.rank_of(e)) is not None}
    seats = sorted(told)
    if len(seats) < 2:
        return None
    step, rest = divmod(told[seats[1]] - told[seats[0]], seats[1] - seats[0])
    first = told[seats[0]] - step * (seats[0] - events[0].root)
    fits = all(told[s] == first + step * (s - events[0].root) for s in seats)
    return first if fits and not rest and first >= 0 else None
