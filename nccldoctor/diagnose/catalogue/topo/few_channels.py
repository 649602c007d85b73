"""NCCL uses far fewer channels than the links allow, or one host finds fewer than its siblings.

Each channel keeps one SM copying; NVLink needs many at once. All hosts of a communicator use the smallest count that any
of them finds, so one host with a lost link or a strange topology slows all.
Not a fault: few channels over PCIe or sockets, old or small GPUs, two ranks on a pair of NVLinks; a limit by variable,
which is ENV07.
"""

from collections import Counter
from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.settings import named, on
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.events.nccl import ChannelCounts, CommShape, GraphFound
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "TOPO07"
name = "few-channels"
severity = Severity.WARNING
needs = (Evidence.INFO_LOG, Evidence.GRAPH)
explains = ("PERF01",)
remedy = (
    "unset NCCL_MAX_NCHANNELS NCCL_MAX_CTAS NCCL_MIN_NCHANNELS NCCL_GRAPH_FILE; grep -i ctas train.py  # also ncclConfig.maxCTAs in the program",
    "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH  # compare 'Pattern 4 … nChannels' on each host",
    "nvidia-smi nvlink -s  # on the host with the fewest channels: all links active?",
)

_RING = 4
_FEW = 8
"""Every NVSwitch machine since DGX-2 gets at least twelve."""
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
        yield Found(
            title=f"{who(job, odd)} finds {odd[0].channels} channels over {odd[0].intra_type}, the other hosts {usual}; all must use the smaller number",
            evidence=lines([*odd[:3], sibling]),
            ranks=job.ranks_of(odd),
            hosts=job.hosts_of(odd),
        )


def _nvswitch(job: Job) -> Iterable[Found]:
    if any(s.hosts > 1 for s in job.events(CommShape)) or len(job.hosts) > 1:
        return
    if not any(t.has_nvswitch and len(t.gpus) > 1 for t in job.topology):
        return
    few = [e for e in job.events(ChannelCounts) if 0 < e.collective < _FEW]
    if few and max(e.collective for e in job.events(ChannelCounts)) < _FEW:
        yield Found(
            title=f"{who(job, few)}: {few[0].collective} channels on a host with NVSwitch, which usually has twelve or more",
            evidence=lines(few),
            confidence=Confidence.MEDIUM,
            ranks=job.ranks_of(few),
            hosts=job.hosts_of(few),
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
}
silent_on = {
    "all alike": "".join(_GRAPH.format(h, 12) for h in range(1, 5)),
    "NVSwitch, 24": _SWITCH.format(24),
    "limited by variable": "gpu-1:71:71 [0] NCCL INFO NCCL_MAX_NCHANNELS set by environment to 1.\n"
    + _SWITCH.format(1),
    "no NVSwitch": _SWITCH.format(2).replace("NVL[370.8] - NVS/0-0", "PCI[12.0] - NIC/0-9c000"),
}
