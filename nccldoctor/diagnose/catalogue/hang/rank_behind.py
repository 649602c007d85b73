"""Some ranks never issued the collective that the others wait in.

A collective ends on no rank before every rank of its communicator has entered it. One rank that stands elsewhere (a
slow data loader, a branch that only it takes, an exception, a dead process) keeps all others waiting, and these are
the ones that report a time-out: the messenger is not the culprit. The culprit is the rank that has issued least, and
that itself waits for nobody on any other communicator; ranks that are behind because they wait elsewhere follow from it.
Where one rank alone is ahead, it may have called a collective too many: both readings are given.
A log that was copied early, or lost its last lines, ends where that of a rank behind ends: where nothing else shows that
the job stands still, it is a note, and the verdict says that it cannot tell.
RAS lists a minority, which may be the ranks ahead; a single RAS answer of a job under way is no hang.
"""

import re
from collections.abc import Iterable, Sequence

from nccldoctor.diagnose import absent, places, standing, stuck
from nccldoctor.diagnose.diagnosis import Found, Sample
from nccldoctor.diagnose.mismatch import fingerprints, parted
from nccldoctor.diagnose.standing import Node, Wait
from nccldoctor.diagnose.words import nth, ranges
from nccldoctor.model.events.torch import StackFrame
from nccldoctor.model.events.trouble import PeerClosed
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Communicator, Evidence, Job, Lane, Origin
from nccldoctor.model.source import Line

code = "HANG01"
name = "rank-behind"
severity = Severity.ERROR
needs = (
    Evidence.CALLS,
    Evidence.RECORDER,
    Evidence.RAS,
    Evidence.WATCHDOG,
    Evidence.STACKS,
    Evidence.OUTPUT,
)
explains = ("HANG02", "HANG04", "HANG05", "HANG06", "NET10")
confirm = (
    "py-spy dump --pid PID  # on the host of the named rank, while it hangs: what does it do instead of the call?",
)
remedy = (
    "with torch.distributed.algorithms.join.Join([model]): …  # or drop_last=True, where ranks have unequal batches; costs one small all_reduce a step",
    "if rank == 0: save(); dist.barrier()  # nothing that only some ranks do may hold a collective: look for `if rank == 0`, early break or continue, exceptions that are swallowed; costs a change in the program",
)

_PLAIN = re.compile(r"[\w./+@-]{1,200}")
"""A file that can be named in a shell as it is."""


def check(job: Job) -> Iterable[Found]:
    """One finding per root: the ranks that keep others waiting and themselves wait for nobody."""
    yield from _by_fingerprint(job)
    found = [w for w in standing.waits(job) if not parted(job, w.communicator.id)]
    if not found:
        yield from list(absent.named(job)) or absent.without_dump(job)
        if not job.lanes:
            yield from list(absent.seen(job)) or absent.by_stacks(job)
        else:
            yield from absent.off_record(job)
        return
    signs = stuck.signs(job)
    tangle = standing.tangle(found, _outside(job, found), standing.transfers(job))
    reported: set[str] = set()
    for wait in _by_worth(tangle.roots):
        comm = wait.communicator
        if comm.id in reported or _is_excerpt(job, wait, signs):
            continue
        reported.add(comm.id)
        roots = [r for r in wait.behind if standing.node(comm, r) in tangle.roots]
        ranks = _silent(job, wait, roots)
        yield _found(job, wait, ranks, signs, found)


def _silent(job: Job, wait: Wait, ranks: Sequence[int]) -> tuple[int, ...]:
    """Of ranks that are equally behind, those that did not stop because a peer had gone: the others saw it go."""
    complained = {p.id for e in job.events(PeerClosed) if (p := job.process_of(e)) is not None}
    silent = [r for r in ranks if wait.communicator.members[r].process not in complained]
    return tuple(silent or ranks)


def _by_worth(roots: dict[Node, list[Wait]]) -> list[Wait]:
    """The waits of each root, the widest first, each root named once."""
    chosen: dict[str, Wait] = {}
    for waits in roots.values():
        widest = max(waits, key=lambda w: (len(w.waiting), len(w.agreeing), w.communicator.id))
        chosen.setdefault(widest.communicator.id, widest)
    return sorted(chosen.values(), key=lambda w: (-len(w.waiting), w.communicator.id))


def _outside(job: Job, found: Sequence[Wait]) -> frozenset[Node]:
    """Behind ranks whose stack is in their own program while others' stacks wait: they wait for nobody."""
    stacks = places.stacks(job)
    if not any(places.waits(s.frames) for s in stacks.values()):
        return frozenset()
    nodes = {standing.node(w.communicator, r) for w in found for r in w.behind}
    return frozenset(
        n
        for n in nodes
        if isinstance(n, int) and n in stacks and not places.waits(stacks[n].frames)
    )


def _is_unproved(job: Job, wait: Wait, signs: Sequence[stuck.Sign]) -> bool:
    """Is it told by call lines that may have been cut, or by one look of RAS that the call lines do not bear out?"""
    if stuck.is_unproved(job, wait.agreeing, signs):
        return True
    logged = [
        lane
        for lane in job.lanes
        if lane.origin is Origin.CALLS and lane.communicator == wait.communicator.id
    ]
    return wait.agreeing == (Origin.RAS,) and bool(logged) and not any(s.strong for s in signs)


def _is_excerpt(job: Job, wait: Wait, signs: Sequence[stuck.Sign]) -> bool:
    """Call lines alone say nothing in files that were cut, or when ranks are many calls apart."""
    if signs or wait.agreeing != (Origin.CALLS,):
        return False
    lanes = wait.standing.lanes
    if all(wait.communicator.members[r].stage == "destroyed" for r in wait.waiting):
        return True
    behind = [lanes[r] for r in wait.behind]
    if stuck.is_excerpt(job, [*behind, lanes[wait.waiting[0]]]) or stuck.is_cut(job, behind):
        return True
    if all(_went_on(job, lane) for lane in behind):
        return True
    return any(lanes[r].issued != wait.standing.ordinal for r in wait.waiting)


def _went_on(job: Job, lane: Lane) -> bool:
    """Did the rank then call, on other communicators, as often as anyone there? Then its log may have lost a line."""
    if lane.line is None:
        return False
    later = [
        other
        for other in job.lanes
        if other.origin is Origin.CALLS
        and other.communicator != lane.communicator
        and other.line is not None
        and other.line.file == lane.line.file
        and other.line.number > lane.line.number
        and _process(job, other) == _process(job, lane)
    ]
    most = {other.communicator: 0 for other in later}
    for other in job.lanes:
        if other.origin is Origin.CALLS and other.communicator in most:
            most[other.communicator] = max(most[other.communicator], other.issued)
    return bool(later) and all(other.issued == most[other.communicator] for other in later)


def _process(job: Job, lane: Lane) -> int | None:
    return job.communicator(lane.communicator).members[lane.rank].process


def _found(
    job: Job,
    wait: Wait,
    ranks: Sequence[int],
    signs: Sequence[stuck.Sign],
    all_waits: Sequence[Wait],
) -> Found:
    comm, ordinal = wait.communicator, wait.standing.ordinal
    call = wait.standing.call(ordinal)
    waiting = places.shown_ranks(comm, wait.waiting)
    culprits = places.shown_ranks(comm, ranks)
    where = places.positions(job, [*culprits, *waiting], _frames(wait))
    who = places.name(job, comm, ranks)
    of = "" if comm.name in who else f" of {comm.name}"
    what = f"{f'{call}, ' if call is not None else ''}the {nth(ordinal)} collective{of}"
    others = f"rank{'s' * (len(waiting) > 1)} {ranges(waiting)}"
    unproved = _is_unproved(job, wait, signs)
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
    return Found(
        title=title,
        evidence=_evidence(wait, ranks, signs),
        confidence=_confidence(wait, signs),
        severity=Severity.NOTE if unproved else None,
        ranks=culprits,
        hosts=places.hosts(job, comm, ranks),
        explanation=_explanation(job, wait, where, signs, all_waits),
        remedy=_remedy(job, comm, ranks, where),
    )


def _remedy(
    job: Job, comm: Communicator, ranks: Sequence[int], where: dict[int, StackFrame]
) -> tuple[str, ...]:
    """The remedy with the place to look at, where a stack has told it, else with the pid to ask for one."""
    stood = [(r, where[r]) for r in places.shown_ranks(comm, ranks) if r in where]
    if stood and _PLAIN.fullmatch(stood[0][1].file) and stood[0][1].line:
        rank, frame = stood[0]
        first, last = max(1, frame.line - 5), frame.line + 5
        return (
            f"sed -n '{first},{last}p' {frame.file}  # rank {rank} stood at line {frame.line} instead of making the call",
            *remedy,
        )
    process = places.process_of(job, comm, ranks[0])
    if process is None or process.pid is None:
        return (*confirm, *remedy)
    first_step = confirm[0].replace("PID", str(process.pid))
    if process.host:
        first_step = first_step.replace("the host of the named rank", process.host)
    return (first_step, *remedy)


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


def _by_fingerprint(job: Job) -> Iterable[Found]:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL: the same operation under different sequence numbers is a rank behind."""
    for event in fingerprints(job):
        if event.op != event.other_op or event.sequence is None or event.other_sequence is None:
            continue
        if event.sequence == event.other_sequence:
            continue
        late = min((event.sequence, event.rank), (event.other_sequence, event.other_rank))[1]
        yield Found(
            title=(
                f"Rank {late} is behind: PyTorch compares {event.op} #{event.sequence} of rank {event.rank} with "
                f"#{event.other_sequence} of rank {event.other_rank}"
            ),
            evidence=(event.line,),
            ranks=(late,),
            hosts=job.hosts_of_ranks([late]),
        )
        return


def _stack(pid: int, *frames: str) -> str:
    body = "".join(f"    {frame}\n" for frame in frames)
    return f'Process {pid}: python train.py\nPython v3.11.7 (python3.11)\n\nThread {pid} (idle): "MainThread"\n{body}'


fires_on = {
    "one rank does not call": Sample("2.28.9-nodes4-skip"),
    "two layers of groups": Sample("2.28.9-mesh-skip"),
    "monitored_barrier": "[rank0]:[E1130 04:20:11.313575390 ProcessGroupGloo.cpp:2901] [Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 3000 ms",
    "desync report": (
        "[rank0]:[E1130 04:20:11.313575390 ProcessGroupNCCL.cpp:520] Rank 0\n\t - [0] Timeout at collective: ALLREDUCE, #41208\n"
        "\t     [3, 5] finished collective #41207, but didn't join collective #41208 (count from 1)\n"
    ),
    "stacks alone": (
        _stack(71, "all_reduce (torch/distributed/distributed_c10d.py:3252)", "step (train.py:92)")
        + _stack(
            72, "all_reduce (torch/distributed/distributed_c10d.py:3252)", "step (train.py:92)"
        )
        + _stack(73, "load (data.py:41)", "main (train.py:60)")
    ),
    "DETAIL": (
        "[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float), but Rank 0 is "
        "running collective: CollectiveFingerPrint(SequenceNumber=2, OpType=ALLREDUCE, TensorShape=[4], "
        "TensorDtypes=Float).Collectives differ in the following aspects: \t Sequence number: 1vs 2"
    ),
}
silent_on = {
    "slow, not hung": Sample("2.28.9-slow-rank"),
    "calls that differ": Sample("2.28.9-wrong-size"),
}
