"""NCCL uses far fewer channels than the links allow, or one host finds fewer than its siblings.

Each channel keeps one SM copying, and NVLink needs many at once: one host of H100, H200 or A100 with NVSwitch usually has
24, of B200 32, of H800 16. NCCL makes two channels of each ring that its search finds (`Pattern 4 … nChannels 12`). All
hosts of a communicator use the smallest count that any of them finds, so one host with a lost link slows all.
Not a fault: two channels over PCIe, shared memory or sockets; GPUs whose usual count nobody has told; groups across
hosts, where the network cards decide; a limit by variable, which is ENV07.
"""

from collections import Counter
from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.settings import named, on
from nccldoctor.diagnose.usual import expected, searched
from nccldoctor.diagnose.words import lines, who
from nccldoctor.knowledge.channels import PER_SEARCHED
from nccldoctor.model.events.nccl import ChannelCounts, GraphFound
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "TOPO07"
name = "few-channels"
severity = Severity.WARNING
needs = (Evidence.INFO_LOG, Evidence.GRAPH)
explains = ("PERF01",)
confirm = (
    "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH  # for one run: compare 'Pattern 4 … nChannels' on each host",
    "nvidia-smi nvlink -s; grep -rinE 'max_?ctas' train.py  # on the host with the fewest: all links active? a limit in the program?",
)
remedy = (
    "unset NCCL_MAX_NCHANNELS NCCL_MAX_CTAS NCCL_MIN_NCHANNELS NCCL_GRAPH_FILE  # costs the SMs that more channels use: one each, during collectives",
    "options = dist.ProcessGroupNCCL.Options(); options.config.max_ctas = 32  # where the program limits it (ncclConfig.maxCTAs); costs SMs during collectives",
    "scontrol update nodename=HOST state=drain reason=nvlink  # the host with missing links; costs its GPUs",
)

_RING = 4
FEW = 3
"""One channel of three, or fewer, is few."""
_LIMITS = (
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_CTAS",
    "NCCL_MAX_NRINGS",
    "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_GRAPH_FILE",
)


def check(job: Job) -> Iterable[Found]:
    """One finding: an odd host, else few channels on an NVSwitch host; nothing where variables set the limit."""
    if named(job, *_LIMITS) or any(on(s) for s in named(job, "NCCL_P2P_DISABLE")):
        return
    odd = list(_odd_hosts(job))
    yield from odd
    if not odd:
        yield from _nvswitch(job)


def _odd_hosts(job: Job) -> Iterable[Found]:
    """Hosts whose first ring graph has at most half of the channels that most hosts find."""
    first: dict[str, GraphFound] = {}
    for graph in job.events(GraphFound):
        host = job.host_of(graph)
        if graph.pattern == _RING and host is not None:
            first.setdefault(host, graph)
    if len(first) < 3:
        return
    usual, count = Counter(g.channels for g in first.values()).most_common(1)[0]
    odd = [g for _, g in sorted(first.items()) if 0 < g.channels <= usual / 2]
    if odd and count > len(first) / 2:
        sibling = next(g for _, g in sorted(first.items()) if g.channels == usual)
        yield told_by(
            job,
            odd,
            f"{who(job, odd)} finds {odd[0].channels} channels over {odd[0].intra_type}, the other hosts {usual}; all must use the smaller number",
            evidence=lines([*odd[:3], sibling]),
        )


def _nvswitch(job: Job) -> Iterable[Found]:
    """Every communicator of the one host has at most a third of what such GPUs usually have."""
    wanted = expected(job)
    if wanted is None or wanted.here * FEW > wanted.usual.channels:
        return
    few = [e for e in job.events(ChannelCounts) if e.collective]
    ring = searched(job)
    could = PER_SEARCHED * ring.channels if ring is not None else 0
    if could > wanted.here:
        why = f"; the search found rings for {could}: the program limits it (ncclConfig's maxCTAs)"
    else:
        why = "; the search itself finds no more: links are missing" if ring is not None else ""
    yield told_by(
        job,
        few,
        f"{who(job, few)}: {wanted}{why}",
        evidence=(*lines([*few[:3], *([ring] if ring else [])]), wanted.line),
        confidence=Confidence.HIGH if ring is not None else Confidence.MEDIUM,
    )


_GRAPH = "gpu-{0}:71:71 [0] NCCL INFO Pattern 4, crossNic 0, nChannels {1}, bw 24.000000/24.000000, type NVL/PIX, sameChannels 1\n"
_SWITCH = (
    "gpu-1:71:71 [0] NCCL INFO CPU/0-0 (1/2/4)\n"
    "gpu-1:71:71 [0] NCCL INFO + PCI[24.0] - GPU/0-1b000 (0)\n"
    "gpu-1:71:71 [0] NCCL INFO               + NVL[370.8] - NVS/0-0\n"
    "gpu-1:71:71 [0] NCCL INFO + PCI[24.0] - GPU/0-3d000 (1)\n"
    "gpu-1:71:71 [0] NCCL INFO               + NVL[370.8] - NVS/0-0\n"
    "gpu-1:71:71 [0] NCCL INFO {0} coll channels, {0} collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer\n"
)

fires_on = {
    "one odd host, 2.14+": "".join(_GRAPH.format(h, 2 if h == 3 else 12) for h in range(1, 5)),
    "one odd host, 2.6-2.13": "".join(
        _GRAPH.format(h, 2 if h == 3 else 12).replace(" bw ", " speed ") for h in range(1, 5)
    ),
    "NVSwitch": _SWITCH.format(2),
    "NVSwitch, A100, 2.12-2.16": _SWITCH.format(4)
    .replace("370.8", "240.0")
    .replace("4 collnet channels, 0 nvls channels, ", ""),
    "NVSwitch, B200": _SWITCH.format(8).replace("370.8", "721.8"),
    "the program's limit": _SWITCH.format(4) + _GRAPH.format(1, 12),
}
silent_on = {
    "all alike": "".join(_GRAPH.format(h, 12) for h in range(1, 5)),
    "NVSwitch, 24": _SWITCH.format(24),
    "H800 has 8 links, and 16 channels": _SWITCH.format(16).replace("370.8", "164.8"),
    "a switch that is not known": _SWITCH.format(2).replace("370.8", "99.0"),
    "limited by variable": "gpu-1:71:71 [0] NCCL INFO NCCL_MAX_NCHANNELS set by environment to 1.\n"
    + _SWITCH.format(1),
    "no NVSwitch": _SWITCH.format(2).replace("NVL[370.8] - NVS/0-0", "PCI[12.0] - NIC/0-9c000"),
}
