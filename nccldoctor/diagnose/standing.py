"""Who is behind on which communicator, by each source, and which source is out of date."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from nccldoctor.model.calls import Call
from nccldoctor.model.job import Communicator, Job, Lane, Origin

_TRUST = (Origin.RECORDER, Origin.CALLS, Origin.RAS, Origin.WATCHDOG)


@dataclass(frozen=True)
class Standing:
    """One communicator as one source sees it. `lanes` are by rank inside the communicator, at least two of them."""

    communicator: Communicator
    origin: Origin
    lanes: dict[int, Lane]

    @cached_property
    def behind(self) -> tuple[int, ...]:
        """The ranks that have issued least, where others have issued more; () when all are level."""
        found = [r for r, lane in self.lanes.items() if lane.issued < self.ordinal]
        return tuple(sorted(found)) if len(found) < len(self.lanes) else ()

    @cached_property
    def waiting(self) -> tuple[int, ...]:
        """The ranks that have issued a call which those behind have not."""
        return tuple(sorted(self.lanes.keys() - set(self.behind))) if self.behind else ()

    @cached_property
    def ordinal(self) -> int:
        """The first call that not all have issued."""
        return min(lane.issued for lane in self.lanes.values()) + 1

    def call(self, ordinal: int) -> Call | None:
        """That call, as a rank that issued it tells it."""
        for lane in self.lanes.values():
            index = ordinal - lane.first_recent
            if 0 <= index < len(lane.recent):
                return lane.recent[index]
            if lane.issued == ordinal and lane.last is not None:
                return lane.last
        return None


def standings(job: Job) -> dict[str, list[Standing]]:
    """Communicator → what each source says of it, the most trusted and complete source first."""
    lanes: dict[tuple[str, Origin], dict[int, Lane]] = defaultdict(dict)
    for lane in job.lanes:
        lanes[lane.communicator, lane.origin][lane.rank] = lane
    found: dict[str, list[Standing]] = defaultdict(list)
    for (ident, origin), of_rank in lanes.items():
        comm = job.communicator(ident)
        if len(of_rank) < 2 or (origin is Origin.RAS and _outdated(of_rank, lanes, ident)):
            continue
        told = Standing(comm, origin, of_rank)
        if origin is not Origin.CALLS or not _cut_short(told, lanes.get((ident, Origin.RAS), {})):
            found[ident].append(told)
    for ident in found:
        found[ident].sort(key=lambda s: (-len(s.lanes), _TRUST.index(s.origin)))
    return found


def _outdated(
    ras: dict[int, Lane], lanes: dict[tuple[str, Origin], dict[int, Lane]], ident: str
) -> bool:
    """Do other sources show that the ranks went on after RAS was asked?"""
    for origin in (Origin.CALLS, Origin.RECORDER):
        others = lanes.get((ident, origin), {})
        if any(rank in others and others[rank].issued > lane.issued for rank, lane in ras.items()):
            return True
    return False


def _cut_short(told: Standing, ras: dict[int, Lane]) -> bool:
    """Has RAS counted calls of a rank behind that are not in its log? Then the log ends before the job's last call."""
    return any(rank in ras and ras[rank].issued > told.lanes[rank].issued for rank in told.behind)


def finished(comm: Communicator) -> bool:
    """Has every rank destroyed this communicator?"""
    return all(member.stage == "destroyed" for member in comm.members)


@dataclass(frozen=True, slots=True)
class Wait:
    """Some ranks wait on one communicator for others. Ranks count inside it."""

    standing: Standing
    agreeing: tuple[Origin, ...]
    contradicting: tuple[Standing, ...]

    @property
    def communicator(self) -> Communicator:
        return self.standing.communicator

    @property
    def behind(self) -> tuple[int, ...]:
        return self.standing.behind

    @property
    def waiting(self) -> tuple[int, ...]:
        return self.standing.waiting


def waits(job: Job) -> list[Wait]:
    """Every communicator on which ranks wait for others, by its most trusted source, and who agrees with it."""
    found = []
    for _, told in sorted(standings(job).items()):
        comm = told[0].communicator
        if finished(comm):
            continue
        first = next((s for s in told if s.behind), None)
        if first is None:
            continue
        rest = [s for s in told if s is not first]
        agreeing = tuple(s.origin for s in rest if s.behind and set(s.behind) <= set(first.behind))
        contradicting = tuple(s for s in rest if s.behind and not set(s.behind) & set(first.behind))
        found.append(Wait(first, (first.origin, *agreeing), contradicting))
    return found


Node = int | tuple[str, int]
"""A process, or a rank of a communicator of which no process is known."""


@dataclass(frozen=True, slots=True)
class Tangle:
    """How the waits hang together. `roots` wait for nobody; `cycle` are processes that wait for each other.

    `held` are all that wait in a collective for somebody, or in a send or receive where that does not leave nobody to
    wait for.
    """

    roots: dict[Node, list[Wait]]
    cycle: list[tuple[Node, Wait, Node]]
    held: frozenset[Node] = frozenset()


def node(comm: Communicator, rank: int) -> Node:
    process = comm.members[rank].process
    return process if process is not None else (comm.id, rank)


def in_set_up(job: Job) -> frozenset[Node]:
    """Processes that stand at the door of a communicator to whose set-up not all of its ranks have come."""
    return frozenset(
        node(comm, member.rank)
        for comm in job.communicators
        if {m.stage for m in comm.members} == {None, "Init START"}
        for member in comm.members
        if member.stage is not None
    )


@dataclass(frozen=True, slots=True)
class Held:
    """A process that has sent or received more often than its peer has met it, and may wait for that."""

    node: Node
    peer: Node
    receives: bool


def transfers(job: Job) -> list[Held]:
    """The ends of point-to-point calls that do not meet, each with the peer that it waits for."""
    found = []
    for transfer in job.transfers:
        comm = job.communicator(transfer.communicator)
        ends = node(comm, transfer.source), node(comm, transfer.target)
        if transfer.received > transfer.sent:
            found.append(Held(ends[1], ends[0], True))
        elif transfer.sent > transfer.received:
            found.append(Held(ends[0], ends[1], False))
    return found


def tangle(
    found: Iterable[Wait],
    outside: frozenset[Node] = frozenset(),
    transfers: Iterable[Held] = (),
) -> Tangle:
    """Follows who waits for whom over all communicators; nodes in `outside` are known not to wait.

    A rank that waits in a send or receive is no root, as long as one that does not is left: a small send ends without
    its receive, so that a receive says more. Where all roots receive from ranks that wait in a collective themselves, the
    waits go round in a circle.
    """
    edges: dict[Node, list[tuple[Wait, Node]]] = defaultdict(list)
    awaited: dict[Node, list[Wait]] = defaultdict(list)
    for wait in found:
        comm = wait.communicator
        for rank in wait.behind:
            awaited[node(comm, rank)].append(wait)
        for rank in wait.waiting:
            source = node(comm, rank)
            if source not in outside:
                edges[source] += [(wait, node(comm, b)) for b in wait.behind]
    roots = {n: of for n, of in awaited.items() if not edges.get(n)}
    held = frozenset(n for n, onward in edges.items() if onward)
    pairs = [t for t in transfers if t.node not in outside]
    for kind in (pairs, [t for t in pairs if t.receives]):
        waiting = {t.node for t in kind}
        if left := {n: of for n, of in roots.items() if n not in waiting}:
            return Tangle(left, [], held | waiting)
    peers = {t.node: t.peer for t in pairs if t.receives}
    if all(n in peers and peers[n] in held for n in roots) and (cycle := _cycle(edges, awaited)):
        return Tangle({}, cycle, held)
    return Tangle(roots, [], held)


def _cycle(
    edges: dict[Node, list[tuple[Wait, Node]]], awaited: dict[Node, list[Wait]]
) -> list[tuple[Node, Wait, Node]]:
    """One shortest circle of waits over at least two communicators."""
    for start in sorted(awaited, key=str):
        paths: list[list[tuple[Node, Wait, Node]]] = [
            [(start, wait, target)] for wait, target in edges.get(start, ())
        ]
        seen = {start}
        while paths:
            path = paths.pop(0)
            at = path[-1][2]
            if at == start:
                return path
            if at not in seen:
                seen.add(at)
                paths += [[*path, (at, wait, target)] for wait, target in edges.get(at, ())]
    return []


_NAMES = {
    Origin.CALLS: "NCCL's call lines",
    Origin.RECORDER: "flight recorders",
    Origin.RAS: "RAS",
    Origin.WATCHDOG: "PyTorch's watchdog",
}


def sources(origins: Iterable[Origin]) -> str:
    """`flight recorders and RAS`: where something is told, for a sentence."""
    names = [_NAMES[o] for o in dict.fromkeys(origins)]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
