"""Calls that do not fit together: which difference counts, and who is the odd one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nccldoctor.diagnose import places, standing, stuck
from nccldoctor.diagnose.stuck import signs
from nccldoctor.diagnose.words import nth, ranges
from nccldoctor.model.calls import Call
from nccldoctor.model.events.torch import FingerprintMismatch, StackFrame
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Communicator, Divergence, Job, Lane, Origin
from nccldoctor.model.source import Line

_MANY = 16


@dataclass(frozen=True, slots=True)
class Parting:
    """The first place on a communicator where calls differ, by its best source. Ranks count inside it."""

    communicator: Communicator
    divergence: Divergence
    sources: tuple[Origin, ...]

    @property
    def different_operations(self) -> bool:
        return len({call.op for call in self.divergence.calls.values()}) > 1

    @property
    def odd(self) -> tuple[int, ...]:
        """The ranks outside the majority; all of them where there is none."""
        return odd_ones(self.divergence.calls)


def odd_ones(calls: Mapping[int, Call]) -> tuple[int, ...]:
    """The ranks that do not call what most call; all ranks where no call has more than half."""
    usual, votes = Counter(calls.values()).most_common(1)[0]
    if votes * 2 <= len(calls):
        return tuple(sorted(calls))
    return tuple(sorted(rank for rank, call in calls.items() if call != usual))


def partings(job: Job) -> list[Parting]:
    """One a communicator; a flight recorder knows more than NCCL's line (a barrier is an AllReduce there)."""
    by_comm: dict[str, list[Divergence]] = {}
    for divergence in job.divergences:
        if not divergence.torn and len(divergence.calls) > 1:
            by_comm.setdefault(divergence.communicator, []).append(divergence)
    found = []
    for ident, told in sorted(by_comm.items()):
        if _only_lines_lost(job, ident):
            continue
        best = min(told, key=lambda d: (d.origin is not Origin.RECORDER, d.ordinal))
        sources = tuple(dict.fromkeys(d.origin for d in [best, *told]))
        found.append(Parting(job.communicator(ident), best, sources))
    return found


def _only_lines_lost(job: Job, ident: str) -> bool:
    """Did all ranks finish the communicator, though by their logs some made fewer calls than others?"""
    issued = {
        lane.issued
        for lane in job.lanes
        if lane.communicator == ident and lane.origin is Origin.CALLS
    }
    return len(issued) > 1 and standing.finished(job.communicator(ident))


def parted(job: Job, communicator: str) -> bool:
    """Do calls on this communicator differ, so that ranks behind follow from that?"""
    return any(p.communicator.id == communicator for p in partings(job)) or any(
        comm == communicator for comm, _ in ras_partings(job)
    )


def fingerprints(job: Job) -> list[FingerprintMismatch]:
    """PyTorch's own comparisons (TORCH_DISTRIBUTED_DEBUG=DETAIL)."""
    return job.events(FingerprintMismatch)


def ras_partings(job: Job) -> list[tuple[str, dict[int, Lane]]]:
    """Communicators on which RAS counts as many calls on every rank, but of different operations."""
    lanes: dict[str, dict[int, Lane]] = {}
    for lane in job.lanes:
        if lane.origin is Origin.RAS:
            lanes.setdefault(lane.communicator, {})[lane.rank] = lane
    return [(ident, ranks) for ident, ranks in sorted(lanes.items()) if _crossed(ranks)]


def _crossed(lanes: Mapping[int, Lane]) -> bool:
    """Has one rank more of one operation and another more of a second one?"""
    values = [
        {op: n for op, n in lane.by_op.items() if op != "Collective"} for lane in lanes.values()
    ]
    operations = sorted({op for counts in values for op in counts})
    first = values[0] if values else {}
    for other in values[1:]:
        differences = [other.get(op, 0) - first.get(op, 0) for op in operations]
        if min(differences, default=0) < 0 < max(differences, default=0):
            return True
    return False


def went_on(job: Job, parting: Parting) -> bool:
    """Did every rank make many more calls after the place where they part, with no sign of a standstill?

    Different operations hang at once, or nearly so: lines that a log lost are then more likely.
    """
    lanes = [
        lane
        for lane in job.lanes
        if lane.communicator == parting.communicator.id and lane.origin is parting.divergence.origin
    ]
    after = min((lane.issued - parting.divergence.ordinal for lane in lanes), default=0)
    return after >= _MANY and not signs(job)


def is_unproved(job: Job, parting: Parting) -> bool:
    """Do only call lines differ, as they also would where the log has lost one, and does nothing say that a call failed?"""
    return stuck.is_unproved(job, parting.sources, signs(job)) and (
        not parting.divergence.replaced or any(d.torn for d in job.divergences)
    )


LOST = "A line that the log has lost looks the same, and nothing shows that the job stands still. "


def severity(job: Job, parting: Parting) -> Severity | None:
    """How loudly to say it; None: as loudly as the diagnosis itself."""
    if is_unproved(job, parting):
        return Severity.NOTE
    return Severity.WARNING if went_on(job, parting) else None


def sentence(job: Job, parting: Parting) -> str:
    """`Rank 3 on gpu-2 (pid 71, GPU 1) called Barrier where ranks 0-2 called AllReduce(…), the 10th collective of …`"""
    comm, calls = parting.communicator, parting.divergence.calls
    groups: dict[Call, list[int]] = {}
    for rank, call in sorted(calls.items()):
        groups.setdefault(call, []).append(rank)
    (call, ranks), *rest = sorted(groups.items(), key=lambda item: (len(item[1]), item[1]))
    others = [
        f"rank{'s' * (len(them) > 1)} {ranges(places.shown_ranks(comm, them))} called {their}"
        for their, them in rest[:3]
    ]
    who = places.name(job, comm, ranks)
    of = "" if comm.name in who else f" of {comm.name}"
    more = f", and {len(rest) - 3} more kinds" if len(rest) > 3 else ""
    return (
        f"{who} called {call} where {', '.join(others)}{more}, "
        f"as the {nth(parting.divergence.ordinal)} collective{of}"
    )


def evidence(parting: Parting, job: Job) -> tuple[Line, ...]:
    """Lines of the odd ranks and of one of the others."""
    lines = parting.divergence.lines
    first = [lines[r] for r in parting.odd if r in lines][:3]
    rest = [lines[r] for r in sorted(lines) if r not in parting.odd][:1]
    found = [*first, *rest]
    for lane in job.lanes:
        if len(found) >= 4:
            break
        if lane.communicator == parting.communicator.id and lane.rank in parting.odd and lane.line:
            found.append(lane.line)
    return tuple(dict.fromkeys(found))


def pending_frames(job: Job, parting: Parting) -> dict[int, Sequence[StackFrame]]:
    """Global rank → where its recorder says that the last call was made."""
    found: dict[int, Sequence[StackFrame]] = {}
    for lane in job.lanes:
        if lane.communicator == parting.communicator.id and lane.frames:
            rank = parting.communicator.members[lane.rank].global_rank
            if rank is not None and lane.issued == parting.divergence.ordinal:
                found[rank] = lane.frames
    return found


def compared(events: Sequence[FingerprintMismatch]) -> str:
    """The title of a finding on PyTorch's own comparisons."""
    event = events[0]
    number = f", as PyTorch's collective #{event.sequence}" if event.sequence is not None else ""
    mine = f"{event.op} of shape [{event.shape or '?'}], {event.dtype or 'unknown type'}"
    other = f"{event.other_op} of shape [{event.other_shape or '?'}], {event.other_dtype or 'unknown type'}"
    return f"Rank {event.rank} called {mine}, where rank {event.other_rank} called {other}{number}"


def odd_of_comparisons(events: Sequence[FingerprintMismatch]) -> tuple[int, ...]:
    """The odd ranks of all comparisons; PyTorch's partner is always rank 0, which may itself be the odd one."""
    calls: dict[int, tuple[str, str | None, str | None]] = {}
    for e in events:
        calls[e.rank] = (e.op, e.shape, e.dtype)
        calls[e.other_rank] = (e.other_op, e.other_shape, e.other_dtype)
    usual, votes = Counter(calls.values()).most_common(1)[0]
    if votes * 2 <= len(calls):
        return tuple(sorted(calls))
    return tuple(sorted(rank for rank, call in calls.items() if call != usual))
