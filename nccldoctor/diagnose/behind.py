"""How HANG01 speaks of a rank that is behind: the title, the proof, how sure, and where to look next."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from nccldoctor.diagnose import places, standing, stuck
from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.long_work import LongWork, long_work
from nccldoctor.diagnose.standing import Wait
from nccldoctor.diagnose.words import nth, ranges
from nccldoctor.model.calls import ROOTED
from nccldoctor.model.events.torch import StackFrame
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Job, Lane, Origin, Process
from nccldoctor.model.source import Line

_PLAIN = re.compile(r"[\w./+@-]{1,200}")
"""A file that can be named in a shell as it is."""


def finding(
    job: Job,
    wait: Wait,
    ranks: Sequence[int],
    signs: Sequence[stuck.Sign],
    all_waits: Sequence[Wait],
    remedy: tuple[str, ...],
    *,
    unproved: bool,
) -> Found:
    """The finding on the ranks that keep others waiting in `wait`; `remedy` is the diagnosis's own, what confirms it first.

    `unproved` makes it a note: the log may end there without a fault.
    """
    comm, ordinal = wait.communicator, wait.standing.ordinal
    call = wait.standing.call(ordinal)
    waiting = places.shown_ranks(comm, wait.waiting)
    culprits = places.shown_ranks(comm, ranks)
    where = places.positions(job, [*culprits, *waiting], _frames(wait))
    who = places.name(job, comm, ranks)
    of = "" if comm.name in who else f" of {comm.name}"
    what = f"{f'{call}, ' if call is not None else ''}the {nth(ordinal)} collective{of}"
    others = f"rank{'s' * (len(waiting) > 1)} {ranges(waiting)}"
    if unproved:
        called = f"{others} {'has' if len(waiting) == 1 else 'have'} called"
        title = (
            f"The log of {who[:1].lower()}{who[1:]} ends before {what}, which {called}: cut or hung"
        )
    else:
        title = (
            f"{who} {_state(wait, ranks)} {what}; {others} wait{'s' * (len(waiting) == 1)} in it"
        )
    if at := places.grouped({r: f for r, f in where.items() if r in culprits}):
        title += f" ({at})"
    confidence = _confidence(wait, signs)
    steps = _remedy(remedy, culprits, where, places.process_of(job, comm, ranks[0]))
    if work := _long_work(job, wait, ranks):
        it = "it is" if len(ranks) == 1 else "they are"
        title += f"; {it} {work.doing}, which may just take long"
        confidence = Confidence.LOW if confidence is Confidence.LOW else Confidence.MEDIUM
        steps = (_PATIENCE, *steps)
    return Found(
        title=title,
        evidence=_evidence(wait, ranks, signs),
        confidence=confidence,
        severity=Severity.NOTE if unproved else None,
        ranks=culprits,
        hosts=places.hosts(job, comm, ranks),
        explanation=_explanation(job, wait, where, signs, all_waits),
        remedy=steps,
    )


_PATIENCE = "nccldoctor run --busy-timeout SECONDS …  # and timeout= of init_process_group, where the work needs that long"


def _long_work(job: Job, wait: Wait, ranks: Sequence[int]) -> LongWork | None:
    """What these ranks are at, by their stacks; None unless each of them is at work that may take long."""
    stacks = places.stacks(job)
    found = []
    for rank in ranks:
        process = places.process_of(job, wait.communicator, rank)
        stack = stacks.get(process.id) if process is not None else None
        found.append(long_work(stack.frames) if stack is not None else None)
    return found[0] if found and all(found) else None


def _remedy(
    remedy: tuple[str, ...],
    ranks: Sequence[int],
    where: Mapping[int, StackFrame],
    process: Process | None,
) -> tuple[str, ...]:
    """The remedy with the line to look at, where a stack has told it, else with the process to ask for one."""
    stood = [(rank, where[rank]) for rank in ranks if rank in where]
    if stood and _PLAIN.fullmatch(stood[0][1].file) and stood[0][1].line:
        rank, frame = stood[0]
        first, last = max(1, frame.line - 5), frame.line + 5
        return (
            f"sed -n '{first},{last}p' {frame.file}  # rank {rank} stood at line {frame.line} instead of making the call",
            *remedy[1:],
        )
    if process is None or process.pid is None:
        return remedy
    ask = remedy[0].replace("PID", str(process.pid))
    if process.host:
        ask = ask.replace("the host of the named rank", process.host)
    return (ask, *remedy[1:])


def looked_up(job: Job, found: Found, remedy: tuple[str, ...]) -> Found:
    """The finding with a remedy that knows the place or the process of its first rank."""
    if found.remedy or not found.ranks:
        return found
    where = places.positions(job, found.ranks, {})
    process = job.process_of_rank(found.ranks[0])
    return replace(found, remedy=_remedy(remedy, found.ranks, where, process))


def _state(wait: Wait, ranks: Sequence[int]) -> str:
    comm = wait.communicator
    if all(comm.members[rank].stage == "destroyed" for rank in ranks):
        return "destroyed the communicator and never called"
    return "never called"


def _frames(wait: Wait) -> dict[int, Sequence[StackFrame]]:
    """Where the recorders say that waiting ranks made the call."""
    frames: dict[int, Sequence[StackFrame]] = {}
    for rank in wait.waiting:
        worldwide = wait.communicator.members[rank].global_rank
        if worldwide is not None:
            frames[worldwide] = wait.standing.lanes[rank].frames
    return frames


def _evidence(wait: Wait, ranks: Sequence[int], signs: Sequence[stuck.Sign]) -> tuple[Line, ...]:
    lanes = wait.standing.lanes
    chosen = [lanes[r].line for r in (*ranks[:3], *wait.waiting[:2])]
    lines = [line for line in chosen if line is not None] + [sign.line for sign in signs[:3]]
    return tuple(dict.fromkeys(lines))


def _confidence(wait: Wait, signs: Sequence[stuck.Sign]) -> Confidence:
    strong = any(sign.strong for sign in signs)
    if wait.contradicting:
        return Confidence.MEDIUM if strong else Confidence.LOW
    if strong and (len(wait.agreeing) > 1 or wait.agreeing[0] is not Origin.RAS):
        return Confidence.HIGH
    if signs or len(wait.agreeing) > 1 or Origin.RECORDER in wait.agreeing:
        return Confidence.MEDIUM
    return Confidence.LOW


def _explanation(
    job: Job,
    wait: Wait,
    where: dict[int, StackFrame],
    signs: Sequence[stuck.Sign],
    all_waits: Sequence[Wait],
) -> str:
    comm, lanes = wait.communicator, wait.standing.lanes
    sources = standing.sources(wait.agreeing)
    parts = [
        f"By {sources}, {_counts(lanes)}. A collective ends on no rank before all have entered it."
    ]
    if len(wait.behind) * 2 > len(lanes):
        ahead = ranges(places.shown_ranks(comm, wait.waiting))
        parts.append(
            f"Most ranks are behind here, so rank {ahead} may instead have called a collective too many."
        )
    if len({lanes[r].last for r in wait.behind if _is_rooted(lanes[r])}) == 1:
        parts.append(
            "They still stand in a call with a root that others have left, and no record tells which root each rank named: "
            "do all name the same?"
        )
    if unheard := [r for r in range(comm.size) if r not in lanes and r not in wait.behind]:
        names = ranges(places.shown_ranks(comm, unheard))
        parts.append(
            f"Nothing was heard of rank {names}: if {'it' if len(unheard) == 1 else 'they'} died or stopped, that is a "
            "second fault."
        )
    if grouped := places.grouped(where):
        parts.append(f"Where they stand: {grouped}.")
    if others := [w for w in all_waits if w.communicator.id != comm.id]:
        names = "; ".join(
            f"on {w.communicator.name} rank {ranges(places.shown_ranks(w.communicator, w.behind))} is behind"
            for w in others[:3]
        )
        parts.append(f"That explains the rest: {names}, because of waiting here.")
    for other in wait.contradicting:
        names = ranges(places.shown_ranks(comm, other.behind))
        parts.append(f"{standing.sources([other.origin])} instead show rank {names} behind.")
    if signs:
        parts.append("Signs of a hang: " + "; ".join(dict.fromkeys(s.what for s in signs)) + ".")
    else:
        parts.append(
            f"Nothing else shows that the job stands still: the files may simply end here. {stuck.UNPROVED}"
        )
    return " ".join(parts)


def _is_rooted(lane: Lane) -> bool:
    """Is the last call one with a root, and still pending?"""
    pending = lane.completed is not None and lane.completed < lane.issued
    return pending and lane.last is not None and lane.last.op in ROOTED


def _counts(lanes: dict[int, Lane]) -> str:
    """`7 ranks have issued 4 calls, 1 rank 3`."""
    counts: dict[int, int] = {}
    for lane in lanes.values():
        counts[lane.issued] = counts.get(lane.issued, 0) + 1
    parts = [
        f"{number} rank{'s' * (number > 1)} issued {issued} collectives"
        for issued, number in sorted(counts.items(), reverse=True)[:4]
    ]
    return ", ".join(parts)
