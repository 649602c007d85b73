"""Which network each process uses, and what the evidence knows of RDMA hardware."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from nccldoctor.diagnose.settings import named, on
from nccldoctor.knowledge.networks import is_rdma as is_rdma
from nccldoctor.model.event import Event
from nccldoctor.model.events.fabric import VerbsMissing
from nccldoctor.model.events.nccl import CommShape, Edge, NetDevices, NetworkChosen
from nccldoctor.model.events.plugin import PluginBroken
from nccldoctor.model.job import Job

SLOW = "Socket"


@dataclass(frozen=True, slots=True)
class Use:
    """The networks of one process, in the order of choice, with the line of the first."""

    process: int
    networks: tuple[str, ...]
    event: Event


def used(job: Job) -> Mapping[int, Use]:
    """Process id → its networks, as `Using network …` tells, else as its connections do."""
    found: dict[int, list[tuple[str, Event]]] = {}
    for chosen in job.events(NetworkChosen):
        if process := job.process_of(chosen):
            found.setdefault(process.id, []).append((chosen.network, chosen))
    for edge in job.events(Edge):
        process = job.process_of(edge)
        if edge.transport == "NET" and process is not None and process.id not in found:
            found[process.id] = [(edge.detail.partition("/")[0], edge)]
    return {
        process: Use(process, tuple(dict.fromkeys(n for n, _ in pairs)), pairs[0][1])
        for process, pairs in sorted(found.items())
    }


def family(network: str) -> str:
    """Names that mean the same network: IBext and IBext_v8 are HPC-X's InfiniBand."""
    return "IB" if network.startswith("IB") else network


def rdma(job: Job) -> list[Event]:
    """Proof of RDMA devices: HCAs that NCCL lists, NICs of a topology, other ranks that use one."""
    listed: list[Event] = [
        e for e in job.events(NetDevices) if e.network == "IB" and "[0]" in e.devices
    ]
    return listed


def rdma_nics(job: Job) -> Sequence[str]:
    """RDMA NICs that topologies name: mlx5, EFA, Broadcom and the like."""
    names = {nic.name for host in job.topology for nic in host.nics}
    known = ("mlx", "efa", "bnxt_re", "irdma", "ionic", "rdmap", "roce", "ibp", "hns")
    return sorted(n for n in names if n.startswith(known))


def spans_hosts(job: Job) -> bool:
    """Do the ranks of a communicator sit on several hosts, as NCCL counts them?"""
    shapes = job.events(CommShape)
    if shapes:
        return any(s.hosts > 1 for s in shapes)
    for comm in job.communicators:
        hosts = {
            job.processes[m.process].host
            for m in comm.members
            if m.process is not None and job.processes[m.process].host
        }
        if len(hosts) > 1:
            return True
    return any(
        not c.inside_host and c.transport == "NET" and c.source_host for c in job.connections
    )


def why_not(job: Job, processes: Collection[int]) -> list[tuple[str, Event]]:
    """Why these processes do not use RDMA, as they say themselves; the most telling reason first."""
    found: list[tuple[str, Event]] = []
    found += [
        (f"{s.variable}={s.value} is set there", s.event)
        for s in named(job, "NCCL_IB_DISABLE", "NCCL_NET")
        if (s.variable == "NCCL_NET" and s.value == SLOW) or (s.variable != "NCCL_NET" and on(s))
    ]
    found += [(f"the plugin fails there ({e.reason})", e) for e in job.events(PluginBroken)]
    found += [("libibverbs is not there", e) for e in job.events(VerbsMissing)]
    found += [
        ("no InfiniBand device is there", e)
        for e in job.events(NetDevices)
        if e.network == "IB" and "[0]" not in e.devices
    ]
    return [
        (text, e) for text, e in found if (p := job.process_of(e)) is not None and p.id in processes
    ]
