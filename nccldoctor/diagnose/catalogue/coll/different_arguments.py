"""Ranks call the same operation with different counts, types, roots or reductions.

NCCL does not compare arguments: the rank with less data may finish and go on to its next call, while the others wait
for the rest, so that rank even looks ahead. Typical are a last batch of another size, padding by rank, a parameter
that exists on some ranks only, and autocast on some ranks.
Operations that may differ by rank (a scatter's input, a gather's output) are not compared; of an all_to_all only the
totals are: what all ranks together send they must together receive.
"""

from collections.abc import Iterable, Mapping

from nccldoctor.diagnose import mismatch, places, stuck
from nccldoctor.diagnose.diagnosis import Found, Sample, told_by
from nccldoctor.diagnose.settings import named
from nccldoctor.diagnose.standing import sources
from nccldoctor.diagnose.words import nth, ranges, who
from nccldoctor.knowledge.buffers import BUFFERS
from nccldoctor.model.events.fabric import SizesDisagree
from nccldoctor.model.events.torch import GlooError
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "COLL02"
name = "different-arguments"
severity = Severity.ERROR
needs = (
    Evidence.CALLS,
    Evidence.RECORDER,
    Evidence.WATCHDOG,
    Evidence.OUTPUT,
    Evidence.NCCL_LOG,
)
explains = ("CRASH01", "HANG01", "HANG02", "HANG04", "HANG05", "HANG06", "NET10", "CRASH02")
look_first = True
confirm = (
    "TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun …  # PyTorch then compares shapes and types before each call; for one run, it is slow",
)
remedy = (
    "DataLoader(…, drop_last=True)  # or pad: every rank passes tensors of one size and type; costs the last part of a batch an epoch",
    "sizes = [torch.zeros_like(n) for _ in range(world)]; dist.all_gather(sizes, n)  # where sizes must differ: exchange them first, then all_to_all_single with splits; costs one small call",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a communicator; else what PyTorch itself compared."""
    told = mismatch.partings(job)
    for parting in told:
        if parting.divergence.totals is not None:
            yield _unbalanced(job, parting, parting.divergence.totals)
        elif not parting.different_operations:
            yield _found(job, parting)
    events = [
        e
        for e in mismatch.fingerprints(job)
        if e.op == e.other_op and _differ(e.shape, e.other_shape, e.dtype, e.other_dtype)
    ]
    if events and not told:
        ranks = mismatch.odd_of_comparisons(events)
        yield Found(
            title=mismatch.compared(events),
            evidence=tuple(e.line for e in events[:3]),
            ranks=ranks,
            hosts=job.hosts_of_ranks(ranks),
        )
    if not told and not events:
        yield from [*_by_gloo(job), *_by_network(job)]


def _differ(*pairs: str | None) -> bool:
    """Does a pair differ? What PyTorch left out of its message, as old versions did, is no difference."""
    return any(
        one is not None and other is not None and one != other
        for one, other in zip(pairs[::2], pairs[1::2], strict=True)
    )


def _by_gloo(job: Job) -> Iterable[Found]:
    """Gloo ends the process that gets more bytes than it expects; the sender may be the odd one as well."""
    sizes = [e for e in job.events(GlooError) if e.kind == "size-mismatch"]
    if sizes:
        yield told_by(
            job,
            sizes,
            f"{who(job, sizes, 'A rank')} got more data from a peer than its own call expects: {sizes[0].message[:120]}",
            confidence=Confidence.MEDIUM,
            explanation=(
                "Gloo ends the process that receives too much: it tells of the difference, and need not be the odd one. "
                "Its peer in that group may have left out a call, so that the next one came instead, or passes another size."
            ),
        )


def _by_network(job: Job) -> Iterable[Found]:
    """NCCL's network got more bytes than the call here expects. Where a rank has a buffer variable, BUF05 tells that."""
    sizes = job.events(SizesDisagree)
    if sizes and not named(job, *BUFFERS):
        yield told_by(
            job,
            sizes,
            f"{who(job, sizes, 'A rank')} and a peer disagree on a call's size: {sizes[0].message[:160]}",
            confidence=Confidence.MEDIUM,
        )


def _unbalanced(
    job: Job, parting: mismatch.Parting, totals: Mapping[int, tuple[int, int]]
) -> Found:
    """An all_to_all whose splits do not fit; whose is known only where one rank alone sends what it does not receive."""
    comm, divergence = parting.communicator, parting.divergence
    uneven = [rank for rank, (sent, received) in totals.items() if sent != received]
    ranks = places.shown_ranks(comm, uneven)
    sent, received = (sum(side) for side in zip(*totals.values(), strict=True))
    alone = f"; only rank {ranges(ranks)} is uneven" if len(uneven) == 1 else ""
    return Found(
        title=(
            f"Split sizes do not fit: in {divergence.calls[uneven[0]].op}, the {nth(divergence.ordinal)} collective of "
            f"{comm.name}, all ranks together send {sent:,} elements and receive {received:,}{alone}"
        ),
        evidence=tuple(divergence.lines[rank] for rank in uneven[:4]),
        confidence=Confidence.HIGH if alone else Confidence.MEDIUM,
        ranks=ranks,
        hosts=places.hosts(job, comm, uneven),
        explanation=(
            "Each rank's input splits must be the output splits that its peers expect of it. Exchange the sizes first "
            "(an all_to_all of the counts), and compute both lists from that."
        ),
    )


def _found(job: Job, parting: mismatch.Parting) -> Found:
    comm, divergence = parting.communicator, parting.divergence
    odd = places.shown_ranks(comm, parting.odd)
    where = places.positions(
        job, places.shown_ranks(comm, divergence.calls), mismatch.pending_frames(job, parting)
    )
    at = places.grouped(where)
    told_by = sources(parting.sources)
    strong = len(parting.sources) > 1 or any(s.strong for s in stuck.signs(job))
    unproved = mismatch.is_unproved(job, parting)
    weak = Confidence.LOW if unproved else Confidence.MEDIUM
    return Found(
        title=mismatch.sentence(job, parting) + (f" ({at})" if at else ""),
        evidence=mismatch.evidence(parting, job),
        confidence=Confidence.HIGH if strong else weak,
        severity=Severity.NOTE if unproved else None,
        ranks=odd,
        hosts=places.hosts(job, comm, parting.odd),
        explanation=(
            f"By {told_by}, the calls agree up to #{divergence.ordinal - 1} and part at #{divergence.ordinal}. "
            + (
                f"Most ranks agree: rank {ranges(odd)} is the odd one out. "
                if len(odd) < len(divergence.calls)
                else "There is no majority, so either side may be the wrong one. "
            )
            + "NCCL does not compare arguments: the rank with less data may even finish and go on. "
            + (mismatch.LOST if unproved else "")
        ),
    )


_A = "gpu-1:71:71 [0] "
fires_on = {
    "COLL lines and recorders": Sample("2.28.9-wrong-size"),
    "Gloo": (
        "what():  [enforce fail at /gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4. Received data "
        "size doesn't match expected size. Is there a distributed collective mismatch in your code?"
    ),
    "2.12-2.19, InfiniBand": _A
    + "transport/net_ib.cc:1300 NCCL WARN NET/IB : req 1/1 tag 7 peer 10.0.0.2<40822> collective mismatch error, local size 32768 remote size 65536\n",
    "2.17+, sockets": _A
    + "transport/net_socket.cc:520 NCCL WARN NET/Socket : peer 10.0.0.2<40822> message truncated : receiving 65536 bytes instead of 32768. If you believe your socket network is in a healthy state, there may be a mismatch in collective sizes\n",
    "DETAIL": (
        "[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE, TensorShape=[8192], TensorDtypes=Float), but Rank 0 is "
        "running collective: CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE, TensorShape=[4096], "
        "TensorDtypes=Float).Collectives differ in the following aspects: \t Tensor Tensor shapes: 8192vs 4096"
    ),
}
silent_on = {
    "a rank behind": Sample("2.28.9-nodes4-skip"),
    "other operations": Sample("2.28.9-wrong-op"),
}
