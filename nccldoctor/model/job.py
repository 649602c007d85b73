"""The job: hosts, processes, ranks and communicators, joined from all sources; facts, no judgement."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import TypeVar

from nccldoctor.model.calls import Call
from nccldoctor.model.event import Event
from nccldoctor.model.events.torch import StackFrame
from nccldoctor.model.evidence import Evidence as Evidence
from nccldoctor.model.source import Line, Source
from nccldoctor.model.topology import Connection, HostTopology, Ring, TreeEdge

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Host:
    """One machine, or what NCCL took for one."""

    name: str
    ranks: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Process:
    """One process: (`host`, `pid`) where NCCL's header told them, else only a rank told by its output.

    `rank` is the global rank, None when nothing tells it; `files` are the sources that it wrote.
    `stages` lists (comm pointer, stage reached) as far as the log goes.
    """

    id: int
    host: str | None = None
    pid: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    device: int | None = None
    bus_id: str | None = None
    files: tuple[str, ...] = ()
    last_stage: str | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One rank of a communicator. `rank` counts inside it; `process` is None for a rank that nothing was heard of."""

    rank: int
    process: int | None = None
    global_rank: int | None = None
    comm: str | None = None
    stage: str | None = None
    start: Line | None = None


@dataclass(frozen=True, slots=True)
class Communicator:
    """One communicator or process group, joined over its ranks.

    `id` is NCCL's commId, `parent/split/color` for a split one, or the PyTorch group's name; `name` is for people.
    `members` has all ranks 0…size-1. `group` is the process group's name where it could be matched.
    """

    id: str
    name: str
    size: int
    members: tuple[Member, ...]
    parent: str | None = None
    group: str | None = None
    network: str | None = None
    channels: int | None = None

    def member(self, rank: int) -> Member:
        return self.members[rank]


class Origin(str, Enum):
    """Which evidence a lane comes from."""

    CALLS = "calls"
    RECORDER = "flight recorder"
    RAS = "RAS"
    WATCHDOG = "watchdog"


@dataclass(frozen=True, slots=True)
class Lane:
    """How far one rank is on one communicator, by one source.

    `issued` counts the collectives that it started to call (from 1), `completed` those known to have ended, None
    where the source cannot tell. `by_op` are launch counts per operation, `mix` those per distinct call where the log has
    its calls. `recent` are its last calls,
    oldest first, with `first_recent` the ordinal of the first of them. `seen` counts the moments at which the source
    has shown just this; `frames` are where the last call was made, where a recorder tells.
    """

    communicator: str
    rank: int
    origin: Origin
    issued: int
    completed: int | None = None
    by_op: Mapping[str, int] = field(default_factory=dict)
    mix: Mapping[Call, int] = field(default_factory=dict)
    last: Call | None = None
    recent: tuple[Call, ...] = ()
    first_recent: int = 1
    line: Line | None = None
    seen: int = 1
    frames: tuple[StackFrame, ...] = ()


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first call at which ranks of one communicator differ: ordinal (from 1), and who called what.

    `torn`: lines that a log lost, and no difference. `replaced`: one call stands in another's place, as no lost line can
    make it: the next calls agree again, or every rank ends just here. `totals` are the elements that each rank
    sends and receives, where their sums differ in an all_to_all that is otherwise right.
    """

    communicator: str
    origin: Origin
    ordinal: int
    calls: Mapping[int, Call]
    lines: Mapping[int, Line] = field(default_factory=dict)
    torn: bool = False
    replaced: bool = False
    totals: Mapping[int, tuple[int, int]] | None = None


@dataclass(frozen=True, slots=True)
class Transfer:
    """Point-to-point calls from one rank of a communicator to another, as both ends tell them.

    By recorders, `sent` and `received` count calls that have not ended; by COLL lines, all calls. `sizes` are the
    elements of the first pair that do not agree, None when all do.
    """

    communicator: str
    origin: Origin
    source: int
    target: int
    sent: int
    received: int
    sizes: tuple[int, int] | None = None
    lines: tuple[Line, ...] = ()


class Job:
    """All that is known of one job. Diagnoses read only this.

    `siblings` counts the jobs in the input, this one included; `partial` says that logs are known to be missing.
    Ranks in `communicators`, `lanes` and `divergences` are ranks inside that communicator; `global_rank` maps them.
    """

    def __init__(
        self,
        *,
        hosts: Sequence[Host] = (),
        processes: Sequence[Process] = (),
        communicators: Sequence[Communicator] = (),
        lanes: Sequence[Lane] = (),
        divergences: Sequence[Divergence] = (),
        transfers: Sequence[Transfer] = (),
        events: Iterable[tuple[Event, int | None]] = (),
        evidence: Iterable[Evidence] = (),
        sources: Sequence[Source] = (),
        world_size: int | None = None,
        partial: bool = False,
        instrumented: bool = False,
        siblings: int = 1,
    ) -> None:
        self.hosts = tuple(hosts)
        self.processes = tuple(processes)
        self.communicators = tuple(communicators)
        self.lanes = tuple(lanes)
        self.divergences = tuple(divergences)
        self.transfers = tuple(transfers)
        self.evidence = frozenset(evidence)
        self.sources = tuple(sources)
        self.world_size = world_size
        self.partial = partial
        self.instrumented = instrumented
        self.siblings = siblings
        self.topology: tuple[HostTopology, ...] = ()
        self.connections: tuple[Connection, ...] = ()
        self.rings: tuple[Ring, ...] = ()
        self.trees: tuple[TreeEdge, ...] = ()
        self._by_class: dict[type[Event], list[Event]] = {}
        self._process_of: dict[int, int] = {}
        self._keep: list[Event] = []
        for event, process in events:
            self._keep.append(event)
            self._by_class.setdefault(type(event), []).append(event)
            if process is not None:
                self._process_of[id(event)] = process
        self._communicator = {c.id: c for c in self.communicators}

    def events(self, kind: type[E]) -> list[E]:
        """Events of exactly this class, in the order of the sources and of the lines in them."""
        return self._by_class.get(kind, [])  # type: ignore[return-value]

    def all_events(self) -> Sequence[Event]:
        """Every event, in the order of the sources."""
        return self._keep

    def process_of(self, event: Event) -> Process | None:
        """The process that wrote this event, where it is known."""
        index = self._process_of.get(id(event))
        return None if index is None else self.processes[index]

    def rank_of(self, event: Event) -> int | None:
        """The global rank that wrote this event, where it is known."""
        process = self.process_of(event)
        if process is not None and process.rank is not None:
            return process.rank
        return event.speaker.rank

    def host_of(self, event: Event) -> str | None:
        """The host that wrote this event, where it is known."""
        process = self.process_of(event)
        if process is not None and process.host is not None:
            return process.host
        return event.speaker.host

    def ranks_of(self, events: Iterable[Event]) -> tuple[int, ...]:
        """The global ranks that wrote these events, sorted, without the unknown ones."""
        return tuple(sorted({r for e in events if (r := self.rank_of(e)) is not None}))

    def hosts_of(self, events: Iterable[Event]) -> tuple[str, ...]:
        """The hosts that wrote these events, sorted, without the unknown ones."""
        return tuple(sorted({h for e in events if (h := self.host_of(e))}))

    def communicator(self, ident: str) -> Communicator:
        return self._communicator[ident]

    def global_rank(self, communicator: str, rank: int) -> int | None:
        """The global rank of rank `rank` of that communicator, where it is known."""
        comm = self._communicator.get(communicator)
        if comm is None or not 0 <= rank < len(comm.members):
            return None
        return comm.members[rank].global_rank

    def process_of_rank(self, rank: int) -> Process | None:
        """The process with this global rank."""
        return next((p for p in self.processes if p.rank == rank), None)

    def host_of_rank(self, rank: int) -> str | None:
        """The host of this global rank."""
        process = self.process_of_rank(rank)
        return process.host if process else None

    def hosts_of_ranks(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """The hosts of these global ranks, sorted, without the unknown ones."""
        return tuple(sorted({h for r in ranks if (h := self.host_of_rank(r)) is not None}))

    def has(self, *kinds: Evidence) -> bool:
        """Is any of these kinds of evidence there?"""
        return not self.evidence.isdisjoint(kinds)

    def first_time(self) -> datetime | None:
        times = [e.speaker.time for e in self._keep if e.speaker.time is not None]
        return min(times, default=None)
