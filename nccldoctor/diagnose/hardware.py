"""What joins the ranks that measured something, as far as the evidence tells, and what that should give."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from nccldoctor.knowledge import links
from nccldoctor.knowledge.links import Fabric
from nccldoctor.model.events.gpus import GpuState, LinkMatrix, TopologyFile
from nccldoctor.model.events.measured import BandwidthRow, ProbeRank
from nccldoctor.model.events.nccl import TopologyLine
from nccldoctor.model.job import Job
from nccldoctor.model.source import Line


@dataclass(frozen=True, slots=True)
class Expectation:
    """Bus GB/s to expect, the link that limits it, and the line that tells of the link."""

    gbytes_per_second: float
    fabric: Fabric
    line: Line
    guessed: bool = False  # only from the name of the GPU


def expectation(job: Job, row: BandwidthRow) -> Expectation | None:
    """What this row should reach; None where hardware, collective or size do not allow to say."""
    found = fabric(job, row)
    if found is None or not row.ranks:
        return None
    limit, line, guessed = found
    value = links.expected(limit, row.op, row.ranks, row.size_bytes)
    return None if value is None else Expectation(value, limit, line, guessed)


def fabric(job: Job, row: BandwidthRow) -> tuple[Fabric, Line, bool] | None:
    """The limiting link between the row's ranks, the line that tells of it, and whether it is a guess by name."""
    hosts = set(row.hosts) or {host for rank in row.members if (host := job.host_of_rank(rank))}
    if len(hosts) > 1:
        return _network(job)
    ranks = [r for r in job.events(ProbeRank) if not row.members or r.rank in row.members]
    if ranks and all(rank.bus_id is None for rank in ranks):
        return None  # ranks on the CPU: whatever GPUs there are had no part in it
    states = _states(job, hosts, {bus for r in ranks if (bus := _bus(r.bus_id))})
    return (
        _by_nvlink(job, states, hosts)
        or _by_nccl(job, row)
        or _by_pcie(states)
        or _by_name(job, states)
    )


def _states(job: Job, hosts: set[str], buses: set[str]) -> list[GpuState]:
    """The GPUs that took part, or all of the host where that is not told."""
    states = [s for s in job.events(GpuState) if not hosts or s.speaker.host in (None, *hosts)]
    chosen = [s for s in states if _bus(s.bus_id) in buses]
    return chosen or states


def _by_nvlink(
    job: Job, states: list[GpuState], hosts: set[str]
) -> tuple[Fabric, Line, bool] | None:
    """By the GPU with the fewest active links, when the matrix joins all these GPUs by NVLink."""
    linked = [s for s in states if s.nvlinks_active]
    names = {f"GPU{s.index}" for s in states}
    matrix = next(
        (m for m in job.events(LinkMatrix) if not hosts or m.speaker.host in (None, *hosts)), None
    )
    if not linked or matrix is None:
        return None
    between = [v for (a, b), v in matrix.links.items() if a in names and b in names]
    if not between or not all(v.startswith("NV") for v in between):
        return None
    least = min(linked, key=lambda s: (s.nvlinks_active or 0, s.index))
    version = least.facts.get("nvlink_version") or links.nvlink_version(
        least.nvlink_gbytes_per_second or 25.0
    )
    count = least.nvlinks_active or 0
    if len(names) == 2:
        count = min(count, *(int(v[2:] or 0) for v in between))
    return links.nvlink(count, version), least.line, False


def _by_nccl(job: Job, row: BandwidthRow) -> tuple[Fabric, Line, bool] | None:
    """By NCCL's own topology: `NVL[370.8] - NVS/0`, which it prints with what it counts on."""
    switched = [
        line
        for line in job.events(TopologyLine)
        if line.link == "NVL" and line.bandwidth and line.node.startswith("NVS")
    ]
    if not switched:
        return None
    least = min(
        switched, key=lambda line: (line.bandwidth or 0.0, line.line.file, line.line.number)
    )
    speed = least.bandwidth or 0.0
    return (
        Fabric("nvlink", speed, f"NVLink to the switch, {speed:g} GB/s by NCCL"),
        least.line,
        False,
    )


def _by_pcie(states: Iterable[GpuState]) -> tuple[Fabric, Line, bool] | None:
    """By the slowest PCIe link, where there is no NVLink at all."""
    known = [
        (found, s.line)
        for s in states
        if s.pcie_generation_max
        and s.pcie_width_max
        and s.nvlinks_active == 0
        and (found := links.pcie(s.pcie_generation_max, s.pcie_width_max))
    ]
    if not known:
        return None
    limit, line = min(known, key=lambda k: k[0].gbytes_per_second)
    return limit, line, False


def _by_name(job: Job, states: Iterable[GpuState]) -> tuple[Fabric, Line, bool] | None:
    found = [
        (limit, s.line)
        for s in states
        if s.name and (limit := links.sxm(s.name) or links.xgmi(s.name))
    ]
    if not found or len({limit.name for limit, _ in found}) > 1:
        return None
    return found[0][0], found[0][1], True


def _network(job: Job) -> tuple[Fabric, Line, bool] | None:
    """By the network cards in NCCL's topology file or dump; 0 and 10 Gb/s are its guesses."""
    for file in job.events(TopologyFile):
        cards = {
            (node.attributes.get("guid", ""), node.attributes.get("name", "")): int(speed) / 8e3
            for node in file.nodes
            if node.tag == "net" and (speed := node.attributes.get("speed", "")).isdigit()
        }
        if known := _cards(cards.values()):
            return known, file.line, False
    return min(_dumped_cards(job), key=lambda f: f[0].gbytes_per_second, default=None)


def _dumped_cards(job: Job) -> Iterable[tuple[Fabric, Line, bool]]:
    """What the dump of each process shows: `NET[48.4] - NET/0-0 (0/GUID/1/48.4)`."""
    dumps: dict[tuple[str, str | None, int | None], dict[str, TopologyLine]] = {}
    for line in job.events(TopologyLine):
        if line.link == "NET" and _NET_SPEED.search(line.node):
            whose = (line.line.file, line.speaker.host, line.speaker.pid)
            dumps.setdefault(whose, {}).setdefault(line.node, line)
    for cards in dumps.values():
        speeds = [float(m[1]) for node in cards if (m := _NET_SPEED.search(node))]
        if (known := _cards(speeds)) is not None:
            yield known, next(iter(cards.values())).line, False


_NET_SPEED = re.compile(r"/([\d.]+)\)$")
_GUESSES = (0.0, 1.25)


def _cards(speeds: Collection[float]) -> Fabric | None:
    if not speeds or any(speed in _GUESSES for speed in speeds):
        return None
    name = f"{len(speeds)} network card{'s' * (len(speeds) != 1)} a host"
    return Fabric("network", sum(speeds), f"{name}, {sum(speeds):g} GB/s")


def _bus(text: str | None) -> str | None:
    """A bus id in one form: NVML pads the domain to eight digits, the kernel to four."""
    return text.lower()[-10:] if text else None
