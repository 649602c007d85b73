"""NVLink joins a host's GPUs in groups, and rings or the order of ranks cross between the groups more than needed.

Bridged pairs, or two boards of four, are islands: between them there is only PCIe. A ring has to cross once into each
island and no more. When ranks are dealt to GPUs across the islands, every step of a model-parallel group crosses.
Not a fault: NVSwitch, one island, or rings that cross as seldom as they can; then it is a note.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.gpus import named, ranks_on
from nccldoctor.diagnose.merging import merged
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.source import Line
from nccldoctor.model.topology import Device, HostTopology

code = "TOPO02"
name = "nvlink-islands"
severity = Severity.WARNING
needs = (Evidence.GRAPH, Evidence.HOST_STATE)
explains = ("PERF01",)
confirm = ("nvidia-smi topo -m  # which GPUs NV# joins, and which only PIX, PHB or SYS",)
remedy = (
    "export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7  # in the order of the islands, so that neighbouring ranks share one; costs nothing",
    "init_device_mesh('cuda', (2, 4), mesh_dim_names=('dp', 'tp'))  # tensor-parallel groups no larger than an island; costs freedom in choosing their size",
    "unset NCCL_GRAPH_FILE NCCL_RINGS CUDA_DEVICE_ORDER  # an order forced by hand hides the one that NCCL finds; costs nothing",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a host: a warning when a ring or the order of ranks crosses too often. Those of many hosts are one."""
    return merged(_each(job))


def _each(job: Job) -> Iterable[Found]:
    for topology in job.topology:
        islands = topology.islands()
        if topology.has_nvswitch or len(islands) < 2 or max(map(len, islands)) < 2:
            continue
        yield _judge(job, topology, islands)


def _judge(job: Job, topology: HostTopology, islands: tuple[tuple[Device, ...], ...]) -> Found:
    shown = " | ".join(named(island) for island in islands)
    ring = _worst_ring(job, topology, islands)
    order = _order(islands)
    limit = len(islands)
    if ring is not None and ring[0] > limit:
        return _found(
            topology,
            f"NVLink joins the GPUs of {topology.host} in {limit} islands ({shown}), and a ring crosses them {ring[0]} times where {limit} would do",
            (ring[1], topology.line),
            islands,
        )
    if ring is None and order > limit:
        return _found(
            topology,
            f"NVLink joins the GPUs of {topology.host} in {limit} islands ({shown}), and neighbouring ranks change islands {order} times where {limit} would do",
            (topology.line,),
            islands,
            Confidence.MEDIUM,
        )
    return _found(
        topology,
        f"NVLink joins the GPUs of {topology.host} in {limit} islands ({shown}); PCIe alone joins the islands",
        (topology.line,),
        islands,
        severity=Severity.NOTE,
    )


def _worst_ring(
    job: Job, topology: HostTopology, islands: tuple[tuple[Device, ...], ...]
) -> tuple[int, Line] | None:
    """The most crossings of any ring inside the host, and its line."""
    worst: tuple[int, Line] | None = None
    for ring in job.rings:
        if ring.communicator is None:
            continue
        members = job.communicator(ring.communicator).members
        global_ranks = {m.rank: m.global_rank for m in members if m.global_rank is not None}
        group_of = {
            local: place
            for local, rank in global_ranks.items()
            if (place := _islands_of(islands).get(rank)) is not None
        }
        if len(group_of) < 3:
            continue
        crossings = ring.crossings(group_of)
        if worst is None or crossings > worst[0]:
            worst = (crossings, ring.line)
    return worst


def _islands_of(islands: tuple[tuple[Device, ...], ...]) -> Mapping[int, int]:
    return {g.rank: i for i, island in enumerate(islands) for g in island if g.rank is not None}


def _order(islands: tuple[tuple[Device, ...], ...]) -> int:
    """How often consecutive ranks of the host, taken round, change islands."""
    place = _islands_of(islands)
    ranks = sorted(place)
    if Counter(place.values()).total() < 3:
        return 0
    pairs = zip(ranks, ranks[1:] + ranks[:1], strict=True)
    return sum(place[a] != place[b] for a, b in pairs)


def _found(
    topology: HostTopology,
    title: str,
    evidence: tuple[Line, ...],
    islands: tuple[tuple[Device, ...], ...],
    confidence: Confidence = Confidence.HIGH,
    severity: Severity | None = None,
) -> Found:
    return Found(
        title=title,
        evidence=evidence,
        confidence=confidence,
        ranks=ranks_on(g for island in islands for g in island),
        hosts=(topology.host,),
        severity=severity,
    )


def _machine(order: tuple[int, ...], pairs: Iterable[tuple[int, int]], ring: str = "") -> str:
    """Four GPUs: the rank on each, and which of them NVLink joins."""
    buses = ("1b000", "1c000", "3d000", "3e000")
    joined = {frozenset(p) for p in pairs}
    text = "gpu-1:70:70 [0] NCCL INFO CPU/0 (1/1/2)\n"
    for bus in buses:
        text += f"gpu-1:70:70 [0] NCCL INFO + PCI[12.0] - GPU/{bus.upper()}\n"
    for a, one in enumerate(buses):
        text += f"gpu-1:70:70 [0] NCCL INFO GPU/{one.upper()} :"
        for b, two in enumerate(buses):
            kind = "LOC" if a == b else "NVL" if frozenset((a, b)) in joined else "SYS"
            text += f"GPU/{two.upper()} (1/20.0/{kind}) "
        text += "\n"
    for gpu, rank in enumerate(order):
        text += (
            f"gpu-1:7{rank}:7{rank} [{gpu}] NCCL INFO comm 0x{rank + 1} rank {rank} nranks 4 cudaDev {gpu} "
            f"busId {buses[gpu]} - Init COMPLETE\n"
        )
    return text + (f"gpu-1:70:70 [0] NCCL INFO Channel 00/02 : {ring}\n" if ring else "")


_PAIRS = ((0, 1), (2, 3))
_ALL = tuple((a, b) for a in range(4) for b in range(a))

fires_on = {
    "ranks dealt across the islands": _machine((0, 2, 1, 3), _PAIRS),
    "a ring crosses four times": _machine((0, 1, 2, 3), _PAIRS, "   0   2   1   3"),
    "a note where nothing is lost": _machine((0, 1, 2, 3), _PAIRS, "   0   1   2   3"),
}
silent_on = {
    "one island": _machine((0, 1, 2, 3), _ALL),
    "islands in order": _machine((0, 1, 2, 3), _PAIRS),
    "no NVLink at all": _machine((0, 1, 2, 3), ()),
}
