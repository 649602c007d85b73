"""Joins what each process says of its communicators into communicators with all their ranks."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from nccldoctor.correlate.processes import Draft, Processes
from nccldoctor.model.digest import Digest
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import (
    ChannelCounts,
    CommComplete,
    CommGone,
    CommShape,
    CommStart,
    Connected,
    GraphFound,
    NetworkChosen,
)
from nccldoctor.model.job import Communicator, Member
from nccldoctor.model.source import Line

STAGES = (
    "bootstrap",
    "Init START",
    "topology",
    "graphs",
    "channels",
    "Init COMPLETE",
    "connected",
    "destroyed",
)


@dataclass
class Seat:
    """One rank of a communicator under way: who sits there, and how far its set-up went."""

    rank: int
    process: Draft
    pointer: str
    stage: str
    start: Line


@dataclass
class Table:
    """A communicator under way."""

    id: str
    size: int
    parent: str | None = None
    seats: dict[int, Seat] = field(default_factory=dict)
    of_process: dict[int, list[Seat]] = field(default_factory=dict)
    networks: set[str] = field(default_factory=set)
    channels: set[int] = field(default_factory=set)


class Communicators:
    """All communicators that the logs speak of.

    `of_pointer` answers by (process id, pointer, generation): a pointer is reused after destroy, and the
    generation counts its Init lines.
    """

    def __init__(self, digests: Sequence[Digest], processes: Processes) -> None:
        self.tables: dict[str, Table] = {}
        self._of_pointer: dict[tuple[int, str, int], Table] = {}
        self._generation: dict[tuple[int, str], int] = {}
        self._opened: dict[tuple[int, str], bool] = {}
        self._current: dict[int, Seat] = {}
        self._network: dict[int, str] = {}
        self._count: dict[tuple[int, int, int], int] = defaultdict(int)
        for digest in digests:
            for event in digest.events:
                process = processes.of_event(event)
                if process is not None:
                    self._take(event, process)

    def of_pointer(self, process: int, pointer: str, generation: int) -> tuple[Table, Seat] | None:
        """The communicator and the seat behind a pointer of a process; the last generation if that one is unknown."""
        table = self._of_pointer.get((process, pointer, generation))
        if table is None and (process, pointer) in self._generation:
            table = self._of_pointer.get((process, pointer, self._generation[process, pointer]))
        if table is None:
            return None
        seats = table.of_process.get(process, [])
        seat = next((s for s in seats if s.pointer == pointer), seats[0] if seats else None)
        return (table, seat) if seat else None

    def build(self, names: dict[str, str] | None = None) -> tuple[Communicator, ...]:
        """The communicators, largest first, every rank with a member."""
        ordered = sorted(self.tables.values(), key=lambda t: (-t.size, t.id))
        return tuple(_communicator(table, (names or {}).get(table.id)) for table in ordered)

    def _take(self, event: Event, process: Draft) -> None:
        if isinstance(event, CommComplete):
            self._seat(event, process, "Init COMPLETE")
        elif isinstance(event, CommStart):
            self._seat(event, process, "Init START")
        elif isinstance(event, NetworkChosen):
            self._network[process.id] = event.network
        elif isinstance(event, CommGone):
            found = self.of_pointer(
                process.id, event.comm, self._generation.get((process.id, event.comm), 0)
            )
            if found and event.phase == "COMPLETE":
                found[1].stage = "destroyed"
        elif seat := self._current.get(process.id):
            self._advance(event, seat, process)

    def _advance(self, event: Event, seat: Seat, process: Draft) -> None:
        reached = seat.stage
        if isinstance(event, (GraphFound, CommShape)):
            reached = "graphs"
        elif isinstance(event, ChannelCounts):
            reached = "channels"
            table = self._of_pointer[
                process.id, seat.pointer, self._generation[process.id, seat.pointer]
            ]
            table.channels.add(event.collective)
        elif isinstance(event, Connected):
            reached = "connected"
        if STAGES.index(reached) > STAGES.index(seat.stage):
            seat.stage = reached

    def _seat(self, event: CommStart, process: Draft, stage: str) -> None:
        key = (process.id, event.comm)
        starting = not isinstance(event, CommComplete)
        if starting or not self._opened.get(key):
            self._generation[key] = self._generation.get(key, -1) + 1
        self._opened[key] = starting
        generation = self._generation[key]
        table = self._of_pointer.get((process.id, event.comm, generation))
        if table is None:
            table = self._table(event, process)
            self._of_pointer[process.id, event.comm, generation] = table
        seat = table.seats.get(event.rank)
        if seat is None:
            seat = table.seats[event.rank] = Seat(
                event.rank, process, event.comm, stage, event.line
            )
            table.of_process.setdefault(process.id, []).append(seat)
        elif STAGES.index(stage) > STAGES.index(seat.stage):
            seat.stage = stage
        self._current[process.id] = seat
        if network := self._network.get(process.id):
            table.networks.add(network)

    def _table(self, event: CommStart, process: Draft) -> Table:
        ident = self._identity(event, process)
        table = self.tables.get(ident)
        if table is None:
            parent = self._parent(event, process)
            table = self.tables[ident] = Table(ident, event.nranks, parent.id if parent else None)
        return table

    def _identity(self, event: CommStart, process: Draft) -> str:
        """commId where there is one; a split's (parent, count, color); before 2.16 the size and the order.

        A process may hold several ranks of one communicator, a thread or a GPU each.
        """
        if event.comm_id is not None:
            return event.comm_id
        parent = self._parent(event, process)
        if event.parent is not None:
            return f"{parent.id if parent else event.parent}/{event.split or 0}/{event.color}"
        number = self._count[process.id, event.nranks, event.rank]
        self._count[process.id, event.nranks, event.rank] += 1
        instance = 0
        while True:
            ident = f"size {event.nranks} #{number}" + (f".{instance}" if instance else "")
            table = self.tables.get(ident)
            if table is None or event.rank not in table.seats:
                return ident
            instance += 1

    def _parent(self, event: CommStart, process: Draft) -> Table | None:
        if event.parent is None:
            return None
        generation = self._generation.get((process.id, event.parent), 0)
        return self._of_pointer.get((process.id, event.parent, generation))


def _communicator(table: Table, name: str | None) -> Communicator:
    members = tuple(_member(rank, table.seats.get(rank)) for rank in range(table.size))
    return Communicator(
        id=table.id,
        name=name or f"communicator {table.id} of {table.size} ranks",
        size=table.size,
        members=members,
        parent=table.parent,
        network=next(iter(table.networks)) if len(table.networks) == 1 else None,
        channels=min(table.channels) if table.channels else None,
    )


def _member(rank: int, seat: Seat | None) -> Member:
    if seat is None:
        return Member(rank)
    return Member(
        rank=rank,
        process=seat.process.id,
        global_rank=seat.process.rank,
        comm=seat.pointer,
        stage=seat.stage,
        start=seat.start,
    )
