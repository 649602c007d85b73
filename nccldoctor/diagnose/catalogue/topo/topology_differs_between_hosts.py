"""Hosts of one job are built differently: GPUs, links, NICs, or how far they are from each other.

NCCL lays the same rings over all hosts and takes the smallest of what they can, so the odd host sets the pace: a
missing NIC, a lost NVLink, another CPU or BIOS setting.
Not a fault: a job that mixes machine types on purpose; hosts with fewer ranks of this job.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.settings import named
from nccldoctor.diagnose.words import some
from nccldoctor.model.events.gpus import GpuState
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.topology import HostTopology

code = "TOPO08"
name = "topology-differs-between-hosts"
severity = Severity.WARNING
needs = (Evidence.GRAPH, Evidence.HOST_STATE)
explains = ("TOPO07", "PERF01")
look_first = True
confirm = (
    "for h in $HOSTS; do ssh $h 'nvidia-smi topo -m; lspci -vv | grep -E \"NVIDIA|Mellanox|LnkSta:\"; ibstat' > topo-$h.txt; done; diff topo-A.txt topo-B.txt  # cards, widths, ports",
)
remedy = (
    "scontrol update nodename=HOST state=drain reason=topology  # or: kubectl cordon HOST; run without the odd host; costs its GPUs until it is mended",
)


def check(job: Job) -> Iterable[Found]:
    """One finding: what differs, and which hosts are the odd ones."""
    if named(job, "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"):
        return
    by_origin = apart(job.topology, lambda topology: topology.origin)
    for topologies in by_origin.values():
        if len(topologies) > 1:
            yield from _compare(topologies, _models(job))


def _models(job: Job) -> Mapping[str, str]:
    models: dict[str, set[str]] = {}
    for gpu in job.events(GpuState):
        host = job.host_of(gpu)
        if host and gpu.name:
            models.setdefault(host, set()).add(gpu.name)
    return {host: ", ".join(sorted(names)) for host, names in models.items()}


def _features(topology: HostTopology, models: Mapping[str, str]) -> Mapping[str, str]:
    """What must agree between hosts, in words. GPUs are counted only where the source shows those of other jobs too."""
    gpus = topology.gpus
    pairs = sorted({p.kind for (a, b), p in topology.paths.items() if _pair(topology, a, b)})
    nics = topology.nics
    nearest = sorted(
        {
            min(kinds)
            for g in gpus
            if (kinds := [p.kind for n in nics if (p := topology.path(g.id, n.id)) is not None])
        }
    )
    nvlink = [
        k.gbytes_per_second for k in topology.links if k.kind == "NVL" and k.gbytes_per_second
    ]
    rates = sorted(
        {k.gbytes_per_second for k in topology.links if k.kind == "NET" and k.gbytes_per_second}
    )
    features = {
        "NICs": str(len(nics)),
        "NIC rates in GB/s": ", ".join(f"{r:g}" for r in rates),
        "NVLink in GB/s": f"{max(nvlink):g}" if nvlink else "none",
        "CPUs": ", ".join(sorted({d.name for d in topology.devices if d.kind == "CPU"})),
        "GPU models": models.get(topology.host, ""),
    }
    if topology.origin != "NCCL":
        features["GPUs"] = str(len(gpus))
    if len(gpus) > 1:
        features["paths between GPUs"] = ", ".join(pairs)
    if gpus and nics:
        features["nearest NIC"] = ", ".join(nearest)
    return {name: value for name, value in features.items() if value}


def _pair(topology: HostTopology, a: str, b: str) -> bool:
    ids = {g.id for g in topology.gpus}
    return a in ids and b in ids and a != b


def _compare(topologies: list[HostTopology], models: Mapping[str, str]) -> Iterable[Found]:
    features = {t.host: _features(t, models) for t in topologies}
    sizes = {t.host: len(t.gpus) for t in topologies}
    said: list[str] = []
    odd: set[str] = set()
    for name in dict.fromkeys(n for f in features.values() for n in f):
        values = {h: f[name] for h, f in features.items() if name in f}
        if name in ("paths between GPUs", "nearest NIC") and len({sizes[h] for h in values}) > 1:
            continue
        counts = Counter(values.values()).most_common()
        if len(counts) < 2:
            continue
        usual = counts[0][0] if counts[0][1] > len(values) / 2 else None
        others = sorted(h for h, v in values.items() if v != usual)
        odd |= set(others)
        shown = some([f"{h} {values[h]}" for h in others], 3)
        said.append(f"{name}: {shown}" + (f", others {usual}" if usual is not None else ""))
    if said:
        ordinary = [t.line for t in topologies if t.host not in odd][:1]
        yield Found(
            title=f"{some(sorted(odd))} differ{'s' * (len(odd) == 1)} from the other hosts in {'; '.join(said[:3])}"
            if ordinary
            else f"Hosts {some(sorted(odd))} differ: {'; '.join(said[:3])}",
            evidence=tuple(t.line for t in topologies if t.host in odd)[:3] + tuple(ordinary),
            confidence=Confidence.HIGH if ordinary else Confidence.MEDIUM,
            hosts=tuple(sorted(odd)),
        )


def _host(number: int, nics: int = 2, nvlink: float = 120.0) -> str:
    head = f"gpu-{number}:71:71 [0] NCCL INFO "
    text = f"{head}CPU/0 (1/2/4)\n"
    for bus in ("1B000", "3D000"):
        text += f"{head}+ PCI[24.0] - GPU/{bus}\n{head}              + NVL[{nvlink}] - NVS/0\n"
    for nic in range(nics):
        text += f"{head}+ PCI[24.0] - NIC/9{nic}000\n{head}              + NET[25.0] - NET/{nic} (0/1/25.000000)\n"
    return text + f"{head}GPU/1B000 :GPU/1B000 (0/5000.0/LOC) GPU/3D000 (2/{nvlink}/NVL)\n"


fires_on = {
    "a NIC less on one host": _host(1) + _host(2) + _host(3, nics=1),
    "slower NVLink on one host": _host(1) + _host(2, nvlink=20.0) + _host(3),
    "two hosts, no majority": _host(1) + _host(2, nics=1),
}
silent_on = {
    "all alike": _host(1) + _host(2) + _host(3),
    "one host": _host(1),
}
