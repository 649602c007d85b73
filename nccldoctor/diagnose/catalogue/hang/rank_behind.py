"""Some ranks never issued the collective that the others wait in.

A collective ends on no rank before every rank of its communicator has entered it. One rank that stands elsewhere (a
slow data loader, a branch that only it takes, an exception, a dead process) keeps all others waiting, and these are
the ones that report a time-out: the messenger is not the culprit. The culprit is the rank that has issued least, and
that itself waits for nobody on any other communicator; ranks that are behind because they wait elsewhere follow from it.
Where one rank alone is ahead, it may have called a collective too many: both readings are given.
A log that was copied early, or lost its last lines, ends where that of a rank behind ends. Where nothing else shows that
the job stands still, it is of low confidence if one rank alone is behind in logs that lack nothing, and else a note, and
the verdict says that it cannot tell. So it is where somebody ended a watched job
that had not been taken for hung.
RAS lists a minority, which may be the ranks ahead; a single RAS answer of a job under way is no hang.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nccldoctor.diagnose import absent, behind, departed, places, silent, standing, stuck
from nccldoctor.diagnose.diagnosis import Found, Sample
from nccldoctor.diagnose.mismatch import fingerprints, parted
from nccldoctor.diagnose.standing import Node, Wait
from nccldoctor.model.events.trouble import PeerClosed
from nccldoctor.model.events.watched import Interrupted
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job, Lane, Origin
from nccldoctor.model.source import ENDS_INSIDE, LACKS_MIDDLE

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
    "dist.barrier()  # and every other collective on all ranks: look for `if rank == 0`, early break or continue, exceptions that are swallowed; costs a change in the program",
)


def check(job: Job) -> Iterable[Found]:
    """One finding per root: the ranks that keep others waiting and themselves wait for nobody."""
    for found in _behind(job):
        if job.events(Interrupted):  # a moment of a job that may have been well
            yield replace(found, severity=Severity.NOTE, confidence=Confidence.LOW)
        else:
            yield found


def _behind(job: Job) -> Iterable[Found]:
    yield from _by_fingerprint(job)
    found = [w for w in standing.waits(job) if not parted(job, w.communicator.id)]
    if not found:
        yield from (behind.looked_up(job, one, (*confirm, *remedy)) for one in _absent(job))
        return
    signs = stuck.signs(job)
    tangle = standing.tangle(found, _outside(job, found), standing.transfers(job))
    setting_up = standing.in_set_up(job)  # what they wait for there, INIT01 tells
    reported: set[str] = set()
    for wait in _by_worth(tangle.roots):
        comm = wait.communicator
        nodes = {r: standing.node(comm, r) for r in wait.behind}
        roots = [r for r, n in nodes.items() if n in tangle.roots and n not in setting_up]
        if not roots or comm.id in reported or _is_excerpt(job, wait, signs):
            continue
        reported.add(comm.id)
        ranks = _silent(job, wait, roots)
        unproved = _is_unproved(job, wait, signs)
        yield behind.finding(job, wait, ranks, signs, found, (*confirm, *remedy), unproved=unproved)


def _absent(job: Job) -> Iterable[Found]:
    """What is left where no calls tell who is behind: ranks that are named, left no dump, or stand elsewhere."""
    told = list(absent.named(job)) or list(absent.without_dump(job))
    told = told or list(silent.by_watchdogs(job))
    if not job.lanes:
        told += list(absent.seen(job)) or list(absent.by_stacks(job))
    else:
        told += absent.off_record(job)
    yield from (
        told
        or list(departed.left_early(job))
        or list(silent.by_outputs(job))
        or absent.odd_place(job)
    )


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
        return not _is_clean(job, wait)
    logged = [
        lane
        for lane in job.lanes
        if lane.origin is Origin.CALLS and lane.communicator == wait.communicator.id
    ]
    return wait.agreeing == (Origin.RAS,) and bool(logged) and not any(s.strong for s in signs)


def _is_clean(job: Job, wait: Wait) -> bool:
    """Is one rank behind and are all others in the next call, in logs of all ranks that have lost nothing as far as they show?"""
    lanes, ordinal = wait.standing.lanes, wait.standing.ordinal
    one = len(wait.behind) == 1 and len(lanes) == wait.communicator.size
    one = one and all(lanes[r].issued == ordinal for r in wait.waiting)
    whole = not any(ENDS_INSIDE in s.note or LACKS_MIDDLE in s.note for s in job.sources)
    return one and whole and not any(divergence.torn for divergence in job.divergences)


def _is_excerpt(job: Job, wait: Wait, signs: Sequence[stuck.Sign]) -> bool:
    """Call lines alone say nothing in files that were cut, or when the ranks ahead are not level."""
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
    return len({lanes[r].issued for r in wait.waiting}) > 1


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
