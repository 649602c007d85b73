"""A receive without its send, a send without its receive, or a circle of sends that nobody receives.

Point-to-point calls meet by order between two ranks. With NCCL a send larger than the buffer does not return before
its receive runs, so two ranks that both send first wait for each other for ever. Pipeline schedules that differ by one
microbatch between stages are the usual reason. Receives from any source match every sender and are not compared.
A job under way always has some ends open: only with signs of a hang is this a fault. Nor is it one where the rank that
owes the other end is kept, in a collective, by a third that is merely behind (HANG01), or is that rank itself.
"""

from collections.abc import Iterable, Sequence

from nccldoctor.diagnose import places, standing, stuck
from nccldoctor.diagnose.diagnosis import Found, Sample
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.words import ranges
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Communicator, Evidence, Job, Origin, Transfer
from nccldoctor.model.source import Line

code = "COLL04"
name = "unmatched-send-recv"
severity = Severity.ERROR
needs = (Evidence.RECORDER, Evidence.CALLS)
explains = ("HANG01", "HANG02", "HANG04", "HANG05", "NET10")
look_first = True
confirm = ("nccldoctor run train.py  # records every send and receive with its line; for one run",)
remedy = (
    "for r in dist.batch_isend_irecv([P2POp(isend, …), P2POp(irecv, …)]): r.wait()  # both directions in one call; costs nothing",
    "if rank % 2 == 0: dist.send(x, peer); dist.recv(y, peer)  # and the other way round on odd ranks; costs the overlap of the two directions",
    "assert num_microbatches % pipeline_stages == 0  # the same number and schedule on neighbouring stages; costs freedom in choosing the batch",
)


def check(job: Job) -> Iterable[Found]:
    """A circle of sends, else one finding a communicator for the pairs that do not meet."""
    signs = stuck.signs(job)
    if not signs:
        return
    by_comm = apart(_of_its_own(job), lambda transfer: transfer.communicator)
    for ident, transfers in by_comm.items():
        comm = job.communicator(ident)
        best = [t for t in transfers if t.origin is Origin.RECORDER] or transfers
        circle = _circle([t for t in best if t.sent > t.received])
        yield _circled(job, comm, circle, best, signs) if circle else _found(job, comm, best, signs)


def _of_its_own(job: Job) -> list[Transfer]:
    """The transfers that do not follow from a rank which is behind in a collective and waits for nobody."""
    pairs = standing.transfers(job)
    tangle = standing.tangle(standing.waits(job), transfers=pairs)
    if tangle.cycle:
        return [t for t in job.transfers if _owing(job, t) not in tangle.held]
    alone = (
        len(tangle.roots) == 1
    )  # then a send that is open says nothing: a small one ends without its receive
    ends = {h.node for h in pairs if h.receives or not alone}
    if not tangle.roots or ends & tangle.roots.keys():
        return list(job.transfers)
    return [t for t in job.transfers if _owing(job, t) not in (*tangle.roots, *tangle.held)]


def _owing(job: Job, transfer: Transfer) -> standing.Node | None:
    """Who has not met the other end; None where both came, with sizes that differ."""
    if transfer.sent == transfer.received:
        return None
    rank = transfer.target if transfer.sent > transfer.received else transfer.source
    return standing.node(job.communicator(transfer.communicator), rank)


def _circle(open_sends: Sequence[Transfer]) -> list[int]:
    """Ranks that send round in a circle, each waiting for the next to receive."""
    onward: dict[int, list[int]] = {}
    for transfer in open_sends:
        onward.setdefault(transfer.source, []).append(transfer.target)
    for start in sorted(onward):
        paths = [[start]]
        seen: set[int] = set()
        while paths:
            path = paths.pop(0)
            for target in onward.get(path[-1], ()):
                if target == start:
                    return path
                if target not in seen:
                    seen.add(target)
                    paths.append([*path, target])
    return []


def _circled(
    job: Job,
    comm: Communicator,
    circle: Sequence[int],
    transfers: Sequence[Transfer],
    signs: Sequence[stuck.Sign],
) -> Found:
    shown = [comm.members[r].global_rank for r in circle]
    names = [str(r if r is not None else own) for r, own in zip(shown, circle, strict=True)]
    return Found(
        title=(
            f"Ranks {' -> '.join([*names, names[0]])} of {comm.name} all send and none receives: each waits for the next"
        ),
        evidence=_lines(transfers, signs),
        confidence=Confidence.HIGH if any(s.strong for s in signs) else Confidence.MEDIUM,
        ranks=places.shown_ranks(comm, circle),
        hosts=places.hosts(job, comm, circle),
    )


def _found(
    job: Job, comm: Communicator, transfers: Sequence[Transfer], signs: Sequence[stuck.Sign]
) -> Found:
    ranks = sorted({r for t in transfers for r in (t.source, t.target)})
    return Found(
        title=(
            f"Point-to-point calls of {comm.name} do not meet: "
            + "; ".join(_sentence(comm, t) for t in transfers[:3])
            + (f"; and {len(transfers) - 3} more pairs" if len(transfers) > 3 else "")
        ),
        evidence=_lines(transfers, signs),
        confidence=Confidence.HIGH if any(s.strong for s in signs) else Confidence.MEDIUM,
        ranks=places.shown_ranks(comm, ranks),
        hosts=places.hosts(job, comm, ranks),
        explanation=f"Signs of a hang: {'; '.join(dict.fromkeys(s.what for s in signs))}.",
    )


def _sentence(comm: Communicator, transfer: Transfer) -> str:
    source = ranges(places.shown_ranks(comm, [transfer.source]))
    target = ranges(places.shown_ranks(comm, [transfer.target]))
    if transfer.sizes is not None and transfer.sent == transfer.received:
        sent, received = transfer.sizes
        return f"rank {source} sends {sent} elements to rank {target}, which expects {received}"
    if transfer.sent > transfer.received:
        return (
            f"rank {source} sends {transfer.sent} times to rank {target}, which receives "
            f"{transfer.received} times"
        )
    return (
        f"rank {target} receives {transfer.received} times from rank {source}, which sends "
        f"{transfer.sent} times"
    )


def _lines(transfers: Sequence[Transfer], signs: Sequence[stuck.Sign]) -> tuple[Line, ...]:
    lines = [line for t in transfers[:3] for line in t.lines[:2]]
    return tuple(dict.fromkeys([*lines, *(s.line for s in signs[:2])]))


fires_on = {"two ranks that both send": Sample("recorder-p2p-circle")}
silent_on = {"collectives alone": Sample("2.28.9-nodes4-skip")}
