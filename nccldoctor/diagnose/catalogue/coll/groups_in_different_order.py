"""Two ranks use two communicators in opposite order, and each waits for the other.

Rank 0 calls on group A and then on group B, rank 1 first on B: on the GPU each kernel waits for its partner, which
stands behind the other. It may work for a long time, as long as both kernels fit on the GPU side by side, and PyTorch's
watchdog need not notice. RAS shows it best: on A one rank is behind, on B the other. Where most ranks have one order,
those that have the other are named.
Logs that were copied at different moments never show such a circle, as long as they lost no line between.
A single rank that is ahead on one communicator and behind on another waits for nobody in a circle: that is HANG01.
"""

from collections.abc import Iterable, Sequence

from nccldoctor.diagnose import places, standing, stuck
from nccldoctor.diagnose.diagnosis import Found, Sample
from nccldoctor.diagnose.left_out import skipper
from nccldoctor.diagnose.mismatch import parted
from nccldoctor.diagnose.standing import Node, Wait
from nccldoctor.diagnose.words import nth, ranges
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.source import Line

code = "COLL03"
name = "groups-in-different-order"
severity = Severity.ERROR
needs = (Evidence.CALLS, Evidence.RECORDER, Evidence.RAS)
explains = ("HANG01", "HANG02", "HANG04", "HANG05", "NET10")
look_first = True
confirm = (
    "torch.cuda.synchronize()  # between the calls on the two groups, for one run: if the hang goes away, this is the reason; it is slow",
)
remedy = (
    "export NCCL_LAUNCH_ORDER_IMPLICIT=1  # NCCL 2.26 and later: serialises launches of several communicators on a device; costs overlap between groups",
    "call the groups in one order on every rank, in forward, backward and optimiser alike  # costs a change in the program, nothing at run time",
)


def check(job: Job) -> Iterable[Found]:
    """One finding: the shortest circle of waits over two communicators or more."""
    found = [w for w in standing.waits(job) if not parted(job, w.communicator.id)]
    outside = frozenset(
        process for process, stack in places.stacks(job).items() if not places.waits(stack.frames)
    )
    known = places.stacks(job)
    use = outside if any(places.waits(s.frames) for s in known.values()) else frozenset[Node]()
    cycle = standing.tangle(found, use, standing.transfers(job)).cycle
    if len({wait.communicator.id for _, wait, _ in cycle}) < 2:
        return
    signs = stuck.signs(job)
    nodes = [source for source, _, _ in cycle]
    ranks = tuple(sorted({r for n in nodes if (r := _rank(job, n)) is not None}))
    sources = {o for _, wait, _ in cycle for o in wait.agreeing}
    torn = any(divergence.torn for divergence in job.divergences)
    unproved = torn and stuck.is_unproved(job, sources, signs)
    strong = len(sources) > 1 or any(s.strong for s in signs)
    weak = Confidence.LOW if unproved else Confidence.MEDIUM
    odd = tuple(sorted({r for n in _odd(cycle) if (r := _rank(job, n)) is not None}))
    links = "; ".join(_link(job, *link) for link in cycle[:4])
    explanation = _explanation(job, ranks, signs) + f" {stuck.UNPROVED}" * unproved
    left_out = skipper(job, cycle)
    rank = _rank(job, left_out.who) if left_out is not None else None
    if left_out is not None and rank is not None:
        title = (
            f"Rank {rank} left out a call, or makes it later: it came to {_what(left_out.wait)} with one collective fewer "
            f"behind it than rank {_rank(job, left_out.beside)}; ranks {ranges(ranks)} now wait for each other"
        )
        explanation = f"{links[:1].upper()}{links[1:]}. {explanation}"
        ranks = (rank,)
    elif odd:
        one = len(odd) == 1
        title = (
            f"Rank{'s' * (not one)} {ranges(odd)} use{'s' * one} {len(cycle)} communicators in another order than all "
            f"others: {links}"
        )
        ranks = odd
    else:
        title = f"Ranks {ranges(ranks)} wait for each other over {len(cycle)} communicators used in different order: {links}"
    yield Found(
        title=title,
        evidence=_evidence(job, cycle, signs),
        confidence=Confidence.HIGH if strong else weak,
        severity=Severity.NOTE if unproved else None,
        ranks=ranks,
        hosts=job.hosts_of_ranks(ranks),
        explanation=explanation,
    )


def _odd(cycle: Sequence[tuple[Node, Wait, Node]]) -> set[Node]:
    """Of the processes in both communicators, the few that are ahead on one and behind on the other, against most."""
    if len(cycle) != 2:
        return set()
    first, second = cycle[0][1], cycle[1][1]
    shared = _nodes(first, first.standing.lanes) & _nodes(second, second.standing.lanes)
    behind = _nodes(first, first.behind) & shared
    others = _nodes(second, second.behind) & shared
    if behind | others != shared or behind & others or len(behind) == len(others):
        return set()
    return min(behind, others, key=len)


def _nodes(wait: Wait, ranks: Iterable[int]) -> set[Node]:
    return {standing.node(wait.communicator, rank) for rank in ranks}


def _rank(job: Job, node: Node) -> int | None:
    return job.processes[node].rank if isinstance(node, int) else node[1]


def _link(job: Job, source: Node, wait: Wait, target: Node) -> str:
    return f"rank {_rank(job, source)} is in {_what(wait)}, which rank {_rank(job, target)} has not called"


def _what(wait: Wait) -> str:
    call = wait.standing.call(wait.standing.ordinal)
    return (
        f"{f'{call}, ' if call else ''}the {nth(wait.standing.ordinal)} collective of "
        f"{wait.communicator.name}"
    )


def _evidence(
    job: Job, cycle: list[tuple[Node, Wait, Node]], signs: list[stuck.Sign]
) -> tuple[Line, ...]:
    lines = []
    for source, wait, target in cycle[:3]:
        for rank, lane in sorted(wait.standing.lanes.items()):
            if standing.node(wait.communicator, rank) in (source, target) and lane.line is not None:
                lines.append(lane.line)
    return tuple(dict.fromkeys([*lines, *(s.line for s in signs[:2])]))


def _explanation(job: Job, ranks: tuple[int, ...], signs: list[stuck.Sign]) -> str:
    at = places.grouped(places.positions(job, ranks, {}))
    return (
        "Each has called on one communicator what the other has not, and the other way round on another: no order "
        "satisfies both."
        + (f" Where they stand: {at}." if at else "")
        + (
            " Signs of a hang: " + "; ".join(dict.fromkeys(s.what for s in signs)) + "."
            if signs
            else ""
        )
    )


fires_on = {"RAS and COLL lines": Sample("2.28.9-group-order")}
silent_on = {
    "two layers of groups, one root": Sample("2.28.9-mesh-skip"),
    "a rank behind": Sample("2.28.9-nodes4-skip"),
}
