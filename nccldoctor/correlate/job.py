"""Puts the job together: processes, communicators, global ranks, groups, lanes."""

from collections.abc import Sequence
from functools import lru_cache

from nccldoctor.correlate import connections, topology, trees
from nccldoctor.correlate.communicators import Communicators
from nccldoctor.correlate.compare import compare
from nccldoctor.correlate.evidence import kinds
from nccldoctor.correlate.groups import Groups, join
from nccldoctor.correlate.places import Places, Reader
from nccldoctor.correlate.processes import Draft, Processes
from nccldoctor.correlate.ranks import assign
from nccldoctor.correlate.rejoin import rejoin
from nccldoctor.correlate.split import split
from nccldoctor.model.calls import CallTable
from nccldoctor.model.digest import Digest
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import BootstrapInterface, NetDevices
from nccldoctor.model.events.watched import Instrumented
from nccldoctor.model.job import Host, Job, Process


def build(digests: Sequence[Digest], reader: Reader, *, partial: bool = False) -> tuple[Job, ...]:
    """The jobs of these digests. `partial` says that logs are known to be missing."""
    if not digests:
        return ()
    parts = split(rejoin(digests))
    return tuple(_job(part, reader, partial, len(parts)) for part in parts)


def _job(digests: Sequence[Digest], reader: Reader, partial: bool, siblings: int) -> Job:
    events = [event for digest in digests for event in digest.events]
    processes = Processes(digests)
    logged = Communicators(digests, processes)
    world_size = assign(processes, list(logged.tables.values()))
    processes.attach_streams(digests)
    groups = join(logged.build(), processes, events, world_size)
    compared = compare(_places(processes, logged, groups), digests, reader)
    drafts = processes.drafts
    owners = [(event, d.id if (d := processes.of_event(event)) else None) for event in events]
    stages = _last_stages(groups)
    job = Job(
        hosts=_hosts(drafts, owners),
        processes=[
            Process(
                id=d.id,
                host=d.host,
                pid=d.pid,
                rank=d.rank,
                local_rank=d.local_rank,
                device=d.device,
                bus_id=d.bus_id,
                files=tuple(sorted(d.files)),
                last_stage=stages.get(d.id),
            )
            for d in drafts
        ],
        communicators=sorted(groups.communicators.values(), key=lambda c: (-c.size, c.id)),
        lanes=compared.lanes,
        divergences=compared.divergences,
        transfers=compared.transfers,
        events=owners,
        evidence=kinds(digests, events),
        sources=[d.source for d in digests],
        world_size=world_size or _size(groups),
        partial=partial,
        siblings=siblings,
        instrumented=any(isinstance(event, Instrumented) for event in events),
    )
    job.topology = topology.hosts(job)
    job.connections, job.rings = connections.lay(job, job.topology)
    job.trees = trees.edges(job)
    return job


def _places(processes: Processes, logged: Communicators, groups: Groups) -> Places:
    def of_table(table: CallTable) -> tuple[str, int] | None:
        process = processes.of_pid(table.host, table.pid)
        found = logged.of_pointer(process.id, table.comm, table.generation)
        return (found[0].id, found[1].rank) if found else None

    return Places(groups.communicators, of_table, groups.of_group)


def _size(groups: Groups) -> int | None:
    return max((c.size for c in groups.communicators.values()), default=None)


def _last_stages(groups: Groups) -> dict[int, str]:
    return {
        m.process: m.stage
        for c in sorted(groups.communicators.values(), key=lambda c: c.size)
        for m in c.members
        if m.process is not None and m.stage is not None
    }


@lru_cache(maxsize=1024)
def _nics(listed: str) -> frozenset[str]:
    """Each device as the log names it, `mlx5_0:1/IB` or `eth0`; the whole text where it is no list."""
    from nccldoctor.grammars.listings import devices

    found = [part for device in devices(listed) for part in (device.parts or (device,))]
    names = {d.name if d.layer is None else f"{d.name}:{d.port}/{d.layer}" for d in found}
    return frozenset(names or {listed.strip()})


def _hosts(drafts: Sequence[Draft], owners: Sequence[tuple[Event, int | None]]) -> list[Host]:
    names = sorted({d.host for d in drafts if d.host})
    addresses: dict[str, set[str]] = {name: set() for name in names}
    nics: dict[str, set[str]] = {name: set() for name in names}
    for event, owner in owners:
        host = drafts[owner].host if owner is not None else None
        if not host:
            continue
        if isinstance(event, BootstrapInterface):
            addresses[host].add(event.address)
        elif isinstance(event, NetDevices) and event.devices:
            nics[host] |= _nics(event.devices)
    return [
        Host(
            name=name,
            ranks=tuple(sorted(d.rank for d in drafts if d.host == name and d.rank is not None)),
            gpus=tuple(sorted({d.bus_id for d in drafts if d.host == name and d.bus_id})),
            nics=tuple(sorted(nics[name])),
            addresses=tuple(sorted(addresses[name])),
        )
        for name in names
    ]
