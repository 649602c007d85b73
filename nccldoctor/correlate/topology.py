"""Builds the graph of each host from what logs, topology files and nvidia-smi tell."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nccldoctor.model.event import Event
from nccldoctor.model.events.gpus import LinkMatrix, TopologyFile, TopologyNode
from nccldoctor.model.events.nccl import PathLine, TopologyLine
from nccldoctor.model.job import Job
from nccldoctor.model.topology import Device, HostTopology, Link, Path

_PATH = re.compile(r"([A-Z]{1,16}/[0-9A-Fa-f\-]+) \((\d+)/([\d.]+)/(\w+)\)")
_NUMBER = re.compile(r"\((\d+)\)")
_RENAMED = {"XGMI": "NVL"}
NOT_TOLD = "host unknown"


@dataclass
class _View:
    """One process's dump, while it is read."""

    event: TopologyLine
    devices: dict[str, Device] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    paths: dict[tuple[str, str], Path] = field(default_factory=dict)
    above: list[tuple[int, str]] = field(default_factory=list)
    roots: set[str] = field(default_factory=set)

    def ends_before(self, event: TopologyLine) -> bool:
        """Does this line open another dump? A dump's path table follows it, and it shows each CPU as a root once."""
        return bool(self.paths) or (event.link is None and event.node in self.roots)


def hosts(job: Job) -> tuple[HostTopology, ...]:
    """One topology a host: NCCL's own view of most GPUs, else a topology file, else nvidia-smi's matrix."""
    found: dict[str, HostTopology] = {}
    candidates = [*_from_logs(job), *_from_files(job), *_from_matrices(job)]
    for topology in candidates:
        known = found.get(topology.host)
        if known is None or (
            known.origin == topology.origin and len(topology.gpus) > len(known.gpus)
        ):
            found[topology.host] = topology
    return tuple(_with_ranks(job, found[host]) for host in sorted(found))


def _from_logs(job: Job) -> Iterable[HostTopology]:
    """Dumps and path tables of each process, which may be interleaved with those of others in one file."""
    views: dict[tuple[object, ...], list[_View]] = {}
    lines: list[TopologyLine | PathLine] = [*job.events(TopologyLine), *job.events(PathLine)]
    for event in sorted(lines, key=lambda e: (e.line.file, e.line.number)):
        mine = views.setdefault((event.line.file, event.speaker.host, event.speaker.pid), [])
        if isinstance(event, TopologyLine):
            if not mine or mine[-1].ends_before(event):
                mine.append(_View(event))
            _dump_line(mine[-1], event)
        elif mine:
            _path_line(mine[-1], event)
    for view in (v for own in views.values() for v in own):
        yield HostTopology(
            _host(job, view.event),
            "NCCL",
            view.event.line,
            tuple(view.devices.values()),
            tuple(dict.fromkeys(view.links)),
            view.paths,
        )


def _dump_line(view: _View, event: TopologyLine) -> None:
    name, _, rest = event.node.partition(" ")
    kind, _, number = name.partition("/")
    local = number.rpartition("-")[2].lower()
    shown = _NUMBER.fullmatch(rest)
    view.devices.setdefault(
        name,
        Device(
            name,
            kind,
            bus_id=local if kind in ("GPU", "PCI", "NIC") else None,
            index=_hex(local) if kind == "NET" else None,
            rank=int(shown[1]) if shown and kind == "GPU" else None,
            name=rest.strip("()"),
        ),
    )
    depth = len(event.indent)
    if event.link is None:
        view.above = [(-1, name)]
        view.roots.add(event.node)
        return
    while view.above and view.above[-1][0] >= depth:
        view.above.pop()
    if view.above:
        view.links.append(Link(view.above[-1][1], name, event.link, event.bandwidth))
    view.above.append((depth, name))


def _path_line(view: _View, event: PathLine) -> None:
    source = event.node
    if source.partition("/")[0] not in ("GPU", "NET"):
        return
    for target, _hops, bandwidth, kind in _PATH.findall(event.paths):
        if target.partition("/")[0] in ("GPU", "NET", "NVS", "CPU"):
            kind = _RENAMED.get(kind, kind)
            view.paths[source, target] = Path(source, target, kind, float(bandwidth))


def _from_matrices(job: Job) -> Iterable[HostTopology]:
    for matrix in job.events(LinkMatrix):
        devices = []
        for name in matrix.devices:
            kind = name.rstrip("0123456789")
            index = int(name[len(kind) :]) if name != kind else None
            devices.append(Device(name, "GPU" if kind == "GPU" else "NIC", index=index, name=name))
        paths = {}
        for (a, b), text in matrix.links.items():
            count = int(text[2:]) if text.startswith("NV") and text[2:].isdigit() else None
            if a != b:
                paths[a, b] = Path(a, b, "NVL" if count else text, count=count)
        yield HostTopology(_host(job, matrix), "nvidia-smi", matrix.line, tuple(devices), (), paths)


def _from_files(job: Job) -> Iterable[HostTopology]:
    for file in job.events(TopologyFile):
        if file.root == "system":
            yield _from_xml(_host(job, file), file)


def _from_xml(host: str, file: TopologyFile) -> HostTopology:
    """GPUs and networks by their place under CPUs and PCIe switches; NVLinks by their targets."""
    by_path = {node.path: node for node in file.nodes}
    places: dict[str, tuple[int, ...]] = {}
    devices: list[Device] = []
    links: list[Link] = []
    switch = Device("NVS/0", "NVS")
    for node in file.nodes:
        attributes = node.attributes
        if node.tag in ("gpu", "net"):
            bus = _bus(by_path, node)
            index = _int(attributes.get("dev"))
            kind = "GPU" if node.tag == "gpu" else "NET"
            ident = f"GPU/{bus}" if kind == "GPU" else f"NET/{index}"
            devices.append(
                Device(
                    ident,
                    kind,
                    bus,
                    index,
                    _int(attributes.get("rank")),
                    attributes.get("name", ""),
                )
            )
            places[ident] = node.path
        elif node.tag == "nvlink":
            own = f"GPU/{_bus(by_path, node)}"
            count = _int(attributes.get("count"))
            to_switch = attributes.get("tclass", "").startswith("0x0680")
            target = switch.id if to_switch else f"GPU/{_short(attributes.get('target', ''))}"
            links.append(Link(own, target, "NVL", count=count))
    if any(link.b == switch.id for link in links):
        devices.append(switch)
    paths = dict(_walks(places, links, by_path))
    return HostTopology(host, "topology file", file.line, tuple(devices), tuple(links), paths)


def _walks(
    places: Mapping[str, tuple[int, ...]],
    links: Sequence[Link],
    nodes: Mapping[tuple[int, ...], TopologyNode],
) -> Iterable[tuple[tuple[str, str], Path]]:
    direct = {(k.a, k.b): k.count for k in links} | {(k.b, k.a): k.count for k in links}
    switched = {k.a: k.count for k in links if k.b.startswith("NVS/")}
    for a, here in places.items():
        for b, there in places.items():
            if a == b:
                continue
            if (a, b) in direct or (a in switched and b in switched):
                yield (a, b), Path(a, b, "NVL", count=direct.get((a, b), switched.get(a)))
            else:
                yield (a, b), Path(a, b, _kind(here, there, nodes))


def _kind(
    here: tuple[int, ...], there: tuple[int, ...], nodes: Mapping[tuple[int, ...], TopologyNode]
) -> str:
    """PIX under one switch, PXB under a chain of them, PHB under one CPU, else SYS."""
    depth = 0
    while depth < min(len(here), len(there)) and here[depth] == there[depth]:
        depth += 1
    common = nodes.get(here[:depth])
    if common is None or common.tag == "system":
        return "SYS"
    if common.tag == "cpu":
        return "PHB"
    bridges = [
        sum(nodes[path[:i]].tag == "pci" for i in range(depth + 1, len(path)) if path[:i] in nodes)
        for path in (here, there)
    ]
    return "PIX" if max(bridges) <= 1 else "PXB"


def _bus(by_path: Mapping[tuple[int, ...], TopologyNode], node: TopologyNode) -> str:
    """The short bus id of the nearest PCI element above a node."""
    for depth in range(len(node.path) - 1, -1, -1):
        above = by_path.get(node.path[:depth])
        if above is not None and above.tag == "pci":
            return _short(above.attributes.get("busid", ""))
    return ""


def _short(bus_id: str) -> str:
    """NCCL's number of `0000:c1:00.0`: `c1000`."""
    return bus_id.replace(":", "").replace(".", "").lstrip("0").lower()


def _with_ranks(job: Job, topology: HostTopology) -> HostTopology:
    """Global ranks by bus id, else by index; ranks that the dump itself shows belong to its communicator."""
    by_bus = {
        p.bus_id.lower(): p.rank for p in job.processes if p.host == topology.host and p.bus_id
    }
    by_index = {p.device: p.rank for p in job.processes if p.host == topology.host}
    devices = []
    for device in topology.devices:
        if device.kind == "GPU":
            rank = by_bus.get(device.bus_id or "")
            if rank is None and device.bus_id is None and device.index is not None:
                rank = by_index.get(device.index)
            device = replace(device, rank=rank)
        devices.append(device)
    return replace(topology, devices=tuple(devices))


def _host(job: Job, event: Event) -> str:
    host = job.host_of(event)
    if host is None and len(job.hosts) == 1:
        return job.hosts[0].name
    return host or NOT_TOLD


def _hex(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None


def _int(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
