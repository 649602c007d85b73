"""How many channels this job's machine usually has, and what tells so."""

from collections.abc import Iterable
from dataclasses import dataclass

from nccldoctor.knowledge import channels, links
from nccldoctor.knowledge.channels import Usual
from nccldoctor.model.events.gpus import GpuState
from nccldoctor.model.events.nccl import ChannelCounts, CommShape, GraphFound, TopologyLine
from nccldoctor.model.job import Job
from nccldoctor.model.source import Line
from nccldoctor.model.topology import HostTopology

_RING = 4


@dataclass(frozen=True, slots=True)
class Expected:
    """The usual count, the line that tells of the GPUs' links, and the most that any communicator has here."""

    usual: Usual
    line: Line
    here: int

    def __str__(self) -> str:
        s = "s" * (self.here != 1)
        return f"{self.here} channel{s} where {self.usual.gpus} with NVSwitch usually have {self.usual.channels}"


def expected(job: Job) -> Expected | None:
    """What a job inside one host should have; None where its links or its channels are not told, or several hosts."""
    counts = [e.collective for e in job.events(ChannelCounts) if e.collective]
    alone = {comm.size for comm in job.communicators} == {1}
    if not counts or alone or len(job.hosts) > 1 or any(s.hosts > 1 for s in job.events(CommShape)):
        return None
    for speed, line in _speeds(job):
        if (found := channels.usual(speed)) is not None:
            return Expected(found, line, max(counts))
    return None


def searched(job: Job) -> GraphFound | None:
    """The ring graph with the most channels that NCCL's search found."""
    rings = [g for g in job.events(GraphFound) if g.pattern == _RING]
    return max(rings, key=lambda g: g.channels, default=None)


def _speeds(job: Job) -> Iterable[tuple[float, Line]]:
    """By NCCL's own dump, else by the name of GPUs that NVLink joins all with all."""
    for line in job.events(TopologyLine):
        if line.link == "NVL" and line.bandwidth and line.node.startswith("NVS"):
            yield line.bandwidth, line.line
    for topology in job.topology:
        if len(topology.gpus) > 2 and _all_joined(topology):
            for state in job.events(GpuState):
                fabric = links.sxm(state.name) if state.name else None
                if fabric is not None and state.speaker.host in (None, topology.host):
                    yield fabric.gbytes_per_second, state.line


def _all_joined(topology: HostTopology) -> bool:
    """Eight NVLinks or more between each two of several GPUs need a switch; without one they are dealt to the peers."""
    gpus = topology.gpus
    paths = [topology.path(a.id, b.id) for a in gpus for b in gpus if a.id < b.id]
    return all(path is not None and (path.count or 0) >= _THROUGH_SWITCH for path in paths)


_THROUGH_SWITCH = 8
