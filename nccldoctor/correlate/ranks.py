"""Global ranks: which process is which rank of the whole job.

In this order: what lines themselves say; the communicator that holds every process; last, the only order in which the
ranks of all communicators ascend while each host's processes stay together, if there is exactly one such order.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from nccldoctor.correlate.communicators import Table
from nccldoctor.correlate.processes import Draft, Processes


def assign(processes: Processes, tables: Sequence[Table]) -> int | None:
    """Gives processes their global ranks; returns the world's size where it is known."""
    world = _world(processes, tables)
    if world is not None:
        for seat in sorted(world.seats.values(), key=lambda s: s.rank):
            processes.set_rank(seat.process, seat.rank)
        _place_the_last(processes, world)
        return world.size
    seated = {seat.process.id: seat.process for t in tables for seat in t.seats.values()}
    if len(seated) < 2 or any(len(t.seats) < t.size for t in tables):
        return None
    order = _only_order(list(seated.values()), tables)
    if order is None:
        return None
    for rank, draft in enumerate(order):
        processes.set_rank(draft, rank)
    return len(order)


def _world(processes: Processes, tables: Sequence[Table]) -> Table | None:
    """The communicator that every process with a communicator is in; the earliest where several are."""
    seated = {seat.process.id for t in tables for seat in t.seats.values()}
    holding_all = [t for t in tables if {s.process.id for s in t.seats.values()} == seated]
    largest = max((t.size for t in tables), default=0)
    candidates = [t for t in holding_all if (t.size == largest and t.size > 1) or len(seated) == 1]
    agreeing = [t for t in candidates if _agrees(t)]
    return min(agreeing, key=_first_line, default=None)


def _place_the_last(processes: Processes, world: Table) -> None:
    """One process without a rank and one rank without a process belong together."""
    empty = [r for r in range(world.size) if processes.known_rank(r) is None]
    unplaced = [d for d in processes.drafts if d.rank is None]
    if len(empty) == len(unplaced) == 1:
        processes.set_rank(unplaced[0], empty[0])


def _agrees(table: Table) -> bool:
    """Do the ranks that lines themselves told fit this communicator as the world?"""
    return all(s.process.rank in (None, s.rank) for s in table.seats.values())


def _first_line(table: Table) -> tuple[int, str]:
    return min((seat.start.number, table.id) for seat in table.seats.values())


def _only_order(drafts: Sequence[Draft], tables: Sequence[Table]) -> list[Draft] | None:
    """Processes in the one order that all communicators and hosts allow; None if there are none or several."""
    pairs = [
        (first.process, second.process)
        for table in tables
        for seats in [sorted(table.seats.values(), key=lambda s: s.rank)]
        for first, second in pairwise(seats)
    ]
    hosts = _sort_uniquely(
        {d.host or "" for d in drafts},
        ((a.host or "", b.host or "") for a, b in pairs if a.host != b.host),
    )
    if hosts is None:
        return None
    by_host: dict[str, list[Draft]] = defaultdict(list)
    for draft in drafts:
        by_host[draft.host or ""].append(draft)
    order: list[Draft] = []
    index = {d.id: d for d in drafts}
    for host in hosts:
        inside = {d.id for d in by_host[host]}
        ids = _sort_uniquely(
            inside, ((a.id, b.id) for a, b in pairs if a.id in inside and b.id in inside)
        )
        if ids is None:
            devices = [d.device for d in by_host[host]]
            if None in devices or len(set(devices)) < len(devices):
                return None
            ids = [d.id for d in sorted(by_host[host], key=lambda d: d.device or 0)]
        order += [index[i] for i in ids]
    return order


def _sort_uniquely(
    nodes: Iterable[str] | Iterable[int], edges: Iterable[tuple[object, object]]
) -> list | None:  # type: ignore[type-arg]
    """A topological order if it is the only one, else None."""
    sorter: TopologicalSorter[object] = TopologicalSorter(dict.fromkeys(nodes, ()))
    for before, after in edges:
        sorter.add(after, before)
    try:
        sorter.prepare()
    except CycleError:
        return None
    order = []
    while sorter.is_active():
        ready = sorter.get_ready()
        if len(ready) != 1:
            return None
        order.append(ready[0])
        sorter.done(*ready)
    return order
