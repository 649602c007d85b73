"""Joins PyTorch's process groups and RAS's communicators with the communicators of the logs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nccldoctor.correlate.processes import Processes
from nccldoctor.model.event import Event
from nccldoctor.model.events.ras import RasSnapshot
from nccldoctor.model.events.recorder import RecorderDump, RecorderGroup
from nccldoctor.model.events.torch import DumpSignal, GroupProgress
from nccldoctor.model.job import Communicator, Member

DEFAULT_GROUP = "default_pg"


@dataclass
class Groups:
    """All communicators, and the communicator behind a process group's name as one rank knows it."""

    communicators: dict[str, Communicator] = field(default_factory=dict)
    _of_group: dict[tuple[str, int | None], str] = field(default_factory=dict)

    def of_group(self, name: str | None, rank: int | None) -> str | None:
        """The communicator's id: names are shared by groups with other ranks, so the asking rank decides."""
        if name is None:
            return None
        return self._of_group.get((name, rank)) or self._of_group.get((name, None))


def join(
    communicators: Sequence[Communicator],
    processes: Processes,
    events: Iterable[Event],
    world_size: int | None,
) -> Groups:
    """The logs' communicators, and those that only RAS, a recorder or the watchdog knows."""
    groups = Groups({c.id: c for c in communicators})
    dumps: list[RecorderDump] = []
    spoken: dict[str, dict[int, tuple[int, str | None]]] = defaultdict(dict)
    for event in events:
        if isinstance(event, RasSnapshot):
            _join_ras(groups, processes, event)
        elif isinstance(event, RecorderDump):
            dumps.append(event)
        elif isinstance(event, (GroupProgress, DumpSignal)) and event.group is not None:
            rank = event.speaker.rank
            if rank is not None:
                spoken[event.group][rank] = (event.group_rank, event.description)
    _join_dumps(groups, processes, dumps)
    _join_spoken(groups, processes, spoken, world_size)
    return groups


def _join_ras(groups: Groups, processes: Processes, snapshot: RasSnapshot) -> None:
    for comm in snapshot.communicators:
        known = groups.communicators.get(comm.id)
        members = list(known.members) if known else [Member(rank) for rank in range(comm.size)]
        for ras in comm.ranks:
            if ras.pid >= 0 and ras.rank < len(members) and members[ras.rank].process is None:
                draft = processes.by_pid_alone(ras.pid) or processes.of_pid(ras.host, ras.pid)
                if draft.device is None:
                    draft.device = ras.device
                members[ras.rank] = replace(
                    members[ras.rank], process=draft.id, global_rank=draft.rank
                )
        if known is None:
            known = Communicator(
                comm.id, f"communicator {comm.id} of {comm.size} ranks", comm.size, tuple(members)
            )
        groups.communicators[comm.id] = replace(known, members=tuple(members))


def _join_dumps(groups: Groups, processes: Processes, dumps: Sequence[RecorderDump]) -> None:
    """Groups of all dumps, by name and ranks; a group without ranks (Gloo) is that of all ranks that dumped it."""
    ranks_of: dict[tuple[str, tuple[int, ...]], RecorderGroup] = {}
    bare: dict[str, set[int]] = defaultdict(set)
    for dump in dumps:
        for group in dump.groups:
            if group.ranks:
                ranks_of[group.name, group.ranks] = group
            elif dump.speaker.rank is not None:
                bare[group.name].add(dump.speaker.rank)
    for name, dumped in bare.items():
        key = (name, tuple(sorted(dumped)))
        ranks_of.setdefault(key, RecorderGroup(name=name, description="", ranks=key[1]))
    for (name, ranks), group in sorted(ranks_of.items()):
        ident = _with_ranks(groups.communicators.values(), ranks) or _new(
            groups, processes, name, group.description, ranks
        )
        _bind(groups, ident, name, group.description, ranks)


def _join_spoken(
    groups: Groups,
    processes: Processes,
    spoken: Mapping[str, Mapping[int, tuple[int, str | None]]],
    world_size: int | None,
) -> None:
    """Groups that only watchdog lines name: the default group is the world, another one has the ranks that spoke."""
    for name, ranks in sorted(spoken.items()):
        unbound = [rank for rank in sorted(ranks) if groups.of_group(name, rank) is None]
        if not unbound:
            continue
        description = next((d for _, d in ranks.values() if d), None) or ""
        whole = description == DEFAULT_GROUP or all(r == g for r, (g, _) in ranks.items())
        size = max(world_size or 0, max(g for g, _ in ranks.values()) + 1)
        if description == DEFAULT_GROUP:
            size = max(size, *(d.rank + 1 for d in processes.drafts if d.rank is not None))
        members = tuple(range(size)) if whole else tuple(unbound)
        ident = _with_ranks(groups.communicators.values(), members)
        if ident is None:
            ident = _new(groups, processes, name, description, members)
        _bind(groups, ident, name, description, members)


def _with_ranks(communicators: Iterable[Communicator], ranks: Sequence[int]) -> str | None:
    """The communicator of the logs with exactly these global ranks that no group has yet."""
    fitting = [
        c
        for c in communicators
        if c.group is None and [m.global_rank for m in c.members] == list(ranks)
    ]
    return fitting[0].id if len(fitting) == 1 else None


def _new(
    groups: Groups, processes: Processes, name: str, description: str, ranks: Sequence[int]
) -> str:
    ident = f"group {name}"
    if ident in groups.communicators:
        ident = f"group {name} of {','.join(map(str, ranks))}"
    members = tuple(
        Member(i, process=processes.of_rank(rank).id, global_rank=rank)
        for i, rank in enumerate(ranks)
    )
    groups.communicators[ident] = Communicator(ident, ident, len(members), members)
    return ident


def _bind(groups: Groups, ident: str, name: str, description: str, ranks: Sequence[int]) -> None:
    comm = groups.communicators[ident]
    label = description if description and description != "undefined" else name
    title = f"process group {label or 'default'} of {comm.size} ranks"
    groups.communicators[ident] = replace(comm, group=name, name=title)
    for rank in ranks:
        groups._of_group[name, rank] = ident
    groups._of_group.setdefault((name, None), ident)
