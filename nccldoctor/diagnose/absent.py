"""Who is absent where no call tells it: ranks without a dump, and ranks whose stacks stand elsewhere."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from nccldoctor.diagnose import places, stuck
from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.mismatch import parted
from nccldoctor.diagnose.words import lines, ranges, some, who_ranks
from nccldoctor.model.events.torch import (
    RanksNamed,
)
from nccldoctor.model.events.watched import HangObserved
from nccldoctor.model.finding import Confidence
from nccldoctor.model.job import Job, Lane, Origin


def without_dump(job: Job) -> Iterable[Found]:
    """All recorders that are there have the same call pending, and some ranks left none.

    Recorders alone show a job under way as well: there all must stand at one call, and few be missing.
    """
    signs, stacks = stuck.signs(job), places.stacks(job)
    inside = {process for process, stack in stacks.items() if places.waits(stack.frames)}
    for ident, lanes in _recorded(job).items():
        comm = job.communicator(ident)
        missing = [m.rank for m in comm.members if m.rank not in lanes and m.process not in inside]
        pending = [r for r, n in lanes.items() if n.completed is None or n.completed < n.issued]
        if not missing or len(pending) < len(lanes) or parted(job, ident):
            continue
        told = {rank for hang in job.events(HangObserved) for rank in hang.behind}
        named = [r for r in missing if comm.members[r].global_rank in told] or missing
        how = "left no flight recorder"
        if named != missing:  # recorders of another host that are not among these files
            missing, how = named, "did not come, as the watchdog there says"
        proved = any(s.strong for s in signs)
        if len(missing) > len(lanes) or job.partial or not (proved or _stand_alike(lanes, missing)):
            continue
        first = lanes[pending[0]]
        waiting, many = ranges(places.shown_ranks(comm, pending)), len(pending) > 1
        culprits = places.shown_ranks(comm, missing)
        yield Found(
            title=(
                f"{places.name(job, comm, missing)} {how}, while rank{'s' * many} {waiting} wait{'s' * (not many)} in "
                f"#{first.issued} {first.last} of {comm.name}"
            ),
            evidence=tuple(n.line for n in list(lanes.values())[:3] if n.line is not None),
            confidence=Confidence.MEDIUM if proved else Confidence.LOW,
            ranks=culprits,
            hosts=places.hosts(job, comm, missing),
            explanation="A process that died or never saw the time-out leaves no dump: look at how it ended.",
        )
        return


def _stand_alike(lanes: Mapping[int, Lane], missing: Sequence[int]) -> bool:
    """Do all recorders end in the same call, at most two behind it, and are they many more than those that are missing?"""
    at = {(lane.issued, lane.last) for lane in lanes.values()}
    depth = [lane.issued - lane.completed for lane in lanes.values() if lane.completed is not None]
    few = 2 * len(missing) <= len(lanes)
    return few and len(at) == 1 and len(depth) == len(lanes) and max(depth) <= 2


def seen(job: Job) -> Iterable[Found]:
    """No call is on record: what nccldoctor saw from outside, and where the ranks' Python stands."""
    for hang in job.events(HangObserved):
        where = places.positions(job, [*hang.behind], {})
        if hang.state != "skewed" or not hang.behind or not where:
            continue
        stands = [s.line for s in places.stacks(job).values()]
        yield Found(
            title=(
                f"Rank{'s' * (len(hang.behind) > 1)} {ranges(hang.behind)} never came to the collective that the "
                f"others wait in; {places.grouped(where)}"
            ),
            evidence=(hang.line, *stands[:4]),
            confidence=Confidence.MEDIUM,
            ranks=hang.behind,
            hosts=job.hosts_of_ranks(hang.behind),
            explanation="Told by the processes' stacks alone; flight recorders or RAS would name the collective.",
        )
        return


def by_stacks(job: Job) -> Iterable[Found]:
    """Stacks alone: most ranks stand in a collective, and a few in their own program."""
    stacks = places.stacks(job)
    inside = {p: s for p, s in stacks.items() if places.in_collective(s.frames)}
    outside = {p: s for p, s in stacks.items() if not places.waits(s.frames)}
    if not outside or len(outside) > len(inside) or len(inside) + len(outside) < len(stacks):
        return
    ranks = sorted(r for p in outside if (r := job.processes[p].rank) is not None)
    pids = [f"pid {job.processes[p].pid}" for p in sorted(outside)]
    who = f"Rank{'s' * (len(ranks) > 1)} {ranges(ranks)}" if ranks else "Process " + ", ".join(pids)
    spots = sorted({places.spot(f) for s in outside.values() if (f := places.user_frame(s.frames))})
    others = sorted({places.spot(f) for s in inside.values() if (f := places.user_frame(s.frames))})
    call = next(iter(inside.values())).frames[0].function
    yield Found(
        title=(
            f"{who} stand{'s' * (len(outside) == 1)} at {some(spots)}, while {len(inside)} others wait in {call} at "
            f"{some(others)}"
        ),
        evidence=tuple(s.line for s in [*outside.values(), *inside.values()][:4]),
        confidence=Confidence.MEDIUM,
        ranks=tuple(ranks),
        hosts=job.hosts_of_ranks(ranks),
        explanation="Stacks of one moment: a second look some seconds later tells whether anything moves.",
    )


def off_record(job: Job) -> Iterable[Found]:
    """The job was seen to hang with nothing pending on record, and only the stacks tell who waits and who is elsewhere."""
    hangs = job.events(HangObserved)
    recorded = [lane for lanes in _recorded(job).values() for lane in lanes.values()]
    if not hangs or len(recorded) < 2 or any(n.completed != n.issued for n in recorded):
        return
    stacks = places.stacks(job)
    ranked = {rank: s for p, s in stacks.items() if (rank := job.processes[p].rank) is not None}
    inside = {r: s for r, s in ranked.items() if places.waits(s.frames)}
    outside = {r: s for r, s in ranked.items() if r not in inside}
    if not outside or len(outside) > len(inside):
        return
    ranks = tuple(sorted(outside))
    spots = places.grouped(places.positions(job, ranked, {}))
    yield Found(
        title=(
            f"{who_ranks(ranks, job.hosts_of_ranks(ranks))} {'is' if len(ranks) == 1 else 'are'} elsewhere while "
            f"{who_ranks(tuple(inside), ()).lower()} wait{'s' * (len(inside) == 1)} on the GPU for a collective that is on no record ({spots})"
        ),
        evidence=(hangs[0].line, *(s.line for s in [*outside.values(), *inside.values()][:4])),
        confidence=Confidence.MEDIUM,
        ranks=ranks,
        hosts=job.hosts_of_ranks(ranks),
        explanation=(
            "Every recorded call has ended, and still the job stands. Calls replayed from a CUDA graph leave no trace in "
            "the flight recorder, the watchdog and RAS: count the replays on each rank."
        ),
    )


def odd_place(job: Job) -> Iterable[Found]:
    """Something timed out, no record tells more, and all ranks but a few stand at one line: point-to-point calls over
    Gloo leave no record, and their waiting shows in no Python frame."""
    signs = [s for s in stuck.signs(job) if s.strong]
    lanes = [lane for of_rank in _recorded(job).values() for lane in of_rank.values()]
    ranked = [p.rank for p in job.processes if p.rank is not None]
    spots = {rank: places.spot(frame) for rank, frame in places.positions(job, ranked, {}).items()}
    if not signs or len(spots) < 3 or any(n.completed not in (None, n.issued) for n in lanes):
        return
    usual, votes = Counter(spots.values()).most_common(1)[0]
    odd = tuple(sorted(rank for rank, at in spots.items() if at != usual))
    if not odd or len(odd) >= votes:
        return
    hosts, others = job.hosts_of_ranks(odd), sorted(set(spots) - set(odd))
    stands = [s.line for s in places.stacks(job).values()]
    yield Found(
        title=(
            f"{who_ranks(odd, hosts)} stand{'s' * (len(odd) == 1)} at {some(sorted({spots[r] for r in odd}))}, while "
            f"ranks {ranges(others)} all stand at {usual}"
        ),
        evidence=(*stands[:4], signs[0].line),
        confidence=Confidence.MEDIUM if job.events(HangObserved) else Confidence.LOW,
        ranks=odd,
        hosts=hosts,
        explanation=(
            f"{signs[0].what}, and no record tells of a call that is pending; where the processes stand is all there is. "
            "Point-to-point calls over Gloo are on no record."
        ),
    )


def _recorded(job: Job) -> dict[str, dict[int, Lane]]:
    found: dict[str, dict[int, Lane]] = {}
    for lane in job.lanes:
        if lane.origin is Origin.RECORDER and lane.issued:
            found.setdefault(lane.communicator, {})[lane.rank] = lane
    return found


def named(job: Job) -> Iterable[Found]:
    """PyTorch's own desync report or monitored_barrier names the ranks."""
    events = [e for e in job.events(RanksNamed) if e.ranks]
    if not events:
        return
    ranks = sorted({r for e in events for r in e.ranks})
    number = f" #{events[0].sequence}" if events[0].sequence is not None else ""
    hosts = job.hosts_of_ranks(ranks)
    yield Found(
        title=(
            f"{who_ranks(ranks, hosts)} did not come to {_what(events[0])}{number}, as PyTorch's own "
            f"{events[0].by} says"
        ),
        evidence=lines(events),
        ranks=tuple(ranks),
        hosts=hosts,
    )


def _what(event: RanksNamed) -> str:
    return "the barrier" if event.by == "monitored_barrier" else "collective"
