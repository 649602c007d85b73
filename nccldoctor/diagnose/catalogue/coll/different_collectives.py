"""At one place of one communicator, ranks call different operations.

NCCL matches calls by their order alone. Where one rank calls a broadcast and the others an all_reduce, kernels of two
kinds wait for each other: a hang, a wrong result, or an error long after. The usual reason is a branch that depends on
the rank, on data, or on an exception; uneven data, where one rank is already in its final barrier, is another.
Lines of several ranks that merely interleave in one file are no fault: each rank's own order is what counts.
"""

from collections.abc import Iterable

from nccldoctor.diagnose import mismatch, places, stuck
from nccldoctor.diagnose.diagnosis import Found, Sample
from nccldoctor.diagnose.standing import sources
from nccldoctor.diagnose.words import ranges
from nccldoctor.model.events.torch import GroupProgress, WatchdogTimeout
from nccldoctor.model.events.trouble import OddCollective
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job, Lane

code = "COLL01"
name = "different-collectives"
severity = Severity.ERROR
needs = (Evidence.CALLS, Evidence.RECORDER, Evidence.RAS, Evidence.WATCHDOG)
explains = (
    "COLL02",
    "CRASH01",
    "HANG01",
    "HANG02",
    "HANG04",
    "HANG05",
    "HANG06",
    "NET10",
    "CRASH02",
)
look_first = True
confirm = (
    "nccldoctor run train.py  # records on which line each rank makes each call; for one run",
    "TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun …  # PyTorch then checks each call and raises at the first difference; for one run, it is slow",
)
remedy = (
    "loss = torch.where(valid, loss, 0.0); loss.backward()  # instead of skipping the step on one rank: every rank must make every call; costs one wasted step on that rank",
    "with torch.distributed.algorithms.join.Join([model]): …  # where ranks have unequal numbers of batches; costs one small all_reduce a step",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a communicator, by calls or recorders; else by RAS's counts; else by PyTorch's own comparison."""
    told = [p for p in mismatch.partings(job) if p.different_operations]
    for parting in told:
        yield _found(job, parting)
    known = {p.communicator.id for p in mismatch.partings(job)}
    for ident, lanes in mismatch.ras_partings(job):
        if ident not in known:
            yield _by_ras(job, ident, lanes)
    if not known:
        yield from _by_fingerprint(job)
        if not mismatch.fingerprints(job):
            yield from _by_word(job) if job.events(OddCollective) else _by_timeouts(job)


def _found(job: Job, parting: mismatch.Parting) -> Found:
    comm, divergence = parting.communicator, parting.divergence
    odd = places.shown_ranks(comm, parting.odd)
    everybody = places.shown_ranks(comm, divergence.calls)
    where = places.positions(job, everybody, mismatch.pending_frames(job, parting))
    at = places.grouped(where)
    told_by = sources(parting.sources)
    return Found(
        title=mismatch.sentence(job, parting) + (f" ({at})" if at else ""),
        evidence=mismatch.evidence(parting, job),
        confidence=_confidence(job, parting),
        severity=mismatch.severity(job, parting),
        ranks=odd,
        hosts=places.hosts(job, comm, parting.odd),
        explanation=(
            f"By {told_by}, the calls agree up to #{divergence.ordinal - 1} and part at #{divergence.ordinal}. "
            + (
                f"Most ranks agree: rank {ranges(odd)} is the odd one out. "
                if len(odd) < len(divergence.calls)
                else "There is no majority, so either side may be the wrong one. "
            )
            + "NCCL matches calls by their order alone and does not notice the difference. "
            + (mismatch.LOST if mismatch.is_unproved(job, parting) else "")
        ),
    )


def _confidence(job: Job, parting: mismatch.Parting) -> Confidence:
    if len(parting.sources) > 1 or any(s.strong for s in stuck.signs(job)):
        return Confidence.HIGH
    return Confidence.LOW if mismatch.severity(job, parting) else Confidence.MEDIUM


def _by_ras(job: Job, ident: str, lanes: dict[int, Lane]) -> Found:
    comm = job.communicator(ident)
    counts = {rank: tuple(sorted(lane.by_op.items())) for rank, lane in lanes.items()}
    usual = max(sorted(set(counts.values())), key=list(counts.values()).count)
    odd = [r for r in sorted(counts) if counts[r] != usual]
    if len(odd) * 2 >= len(counts):
        odd = sorted(counts)
    shown = "; ".join(
        f"rank {ranges(places.shown_ranks(comm, [r]))} "
        + ", ".join(f"{n} {op}" for op, n in counts[r] if n)
        for r in [*odd[:3], *(r for r in sorted(counts) if r not in odd)][:4]
    )
    lines = [lanes[r].line for r in sorted(lanes)]
    return Found(
        title=f"Different operations on {comm.name}: RAS counts {shown}",
        evidence=tuple(dict.fromkeys(line for line in lines if line is not None))[:4],
        confidence=Confidence.MEDIUM,
        ranks=places.shown_ranks(comm, odd),
        hosts=places.hosts(job, comm, odd),
    )


def _by_word(job: Job) -> Iterable[Found]:
    """Who differs by NCCL's or an old PyTorch's word, where nothing tells what the others call."""
    events = job.events(OddCollective)
    ranks = sorted({e.odd_rank for e in events})
    if events:
        what = next((f": it calls {e.op}" for e in events if e.op and len(ranks) == 1), "")
        yield Found(
            title=f"Rank {ranges(ranks)} calls another collective than the others{what}",
            evidence=tuple(e.line for e in events[:3]),
            confidence=Confidence.MEDIUM,
            ranks=tuple(ranks),
            hosts=job.hosts_of_ranks(ranks) or job.hosts_of(events),
        )


def _by_timeouts(job: Job) -> Iterable[Found]:
    """Watchdogs of several ranks name different operations under one number of the group of all ranks.

    Sends and receives are numbered apart, so those are left out.
    """
    failed = {
        (job.rank_of(e), e.failed_sequence)
        for e in job.events(GroupProgress)
        if e.description == "default_pg"
    }
    apart: dict[int, dict[int, WatchdogTimeout]] = {}
    for event in job.events(WatchdogTimeout):
        rank = job.rank_of(event)
        if rank is not None and (rank, event.sequence) in failed:
            apart.setdefault(event.sequence, {}).setdefault(rank, event)
    for sequence, told in sorted(apart.items()):
        if len({e.op for e in told.values()}) < 2:
            continue
        if any(e.op in ("SEND", "RECV", "COALESCED") for e in told.values()):
            continue
        calls: dict[str, list[int]] = {}
        for rank, event in told.items():
            count = f" of {event.elements_in} elements" if event.elements_in is not None else ""
            calls.setdefault(f"{event.op}{count}", []).append(rank)
        fewest_first = sorted(calls.items(), key=lambda item: (len(item[1]), item[1]))
        sides = [f"{call} on rank {ranges(ranks)}" for call, ranks in fewest_first]
        yield Found(
            title=f"Ranks call different operations as #{sequence} of the group of all ranks: {', but '.join(sides)}",
            evidence=tuple(e.line for e in told.values())[:4],
            confidence=Confidence.MEDIUM,
            ranks=tuple(sorted(told)),
            hosts=job.hosts_of(told.values()),
        )
        return


def _by_fingerprint(job: Job) -> Iterable[Found]:
    events = [e for e in mismatch.fingerprints(job) if e.op != e.other_op]
    if events:
        yield Found(
            title=mismatch.compared(events),
            evidence=tuple(e.line for e in events[:3]),
            ranks=mismatch.odd_of_comparisons(events),
            hosts=job.hosts_of_ranks(mismatch.odd_of_comparisons(events)),
        )


fires_on = {
    "2.4-2.5": "gpu-1:71:71 [0] init.cc:1247 NCCL WARN Mismatched collective detected, please check your collective calls at and around rank 3. You can use NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=COLL to see the collective logs",
    "COLL lines, recorder and RAS": Sample("2.28.9-wrong-op"),
    "DETAIL": (
        "[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=1, OpType=BROADCAST, TensorShape=[4], TensorDtypes=Float), but Rank 0 is "
        "running collective: CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE, TensorShape=[4], "
        "TensorDtypes=Float).Collectives differ in the following aspects: \t Op type: BROADCASTvs ALLREDUCE"
    ),
}
silent_on = {
    "a rank behind": Sample("2.28.9-nodes4-skip"),
    "other sizes": Sample("2.28.9-wrong-size"),
}
