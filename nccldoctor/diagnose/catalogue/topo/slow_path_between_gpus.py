"""One GPU reaches its siblings only through the CPU or across sockets, where the others have nearer ways.

A GPU in the wrong slot, behind another CPU, or with a lost NVLink slows every ring that passes it.
Not a fault: a machine where all GPUs are alike, however far from each other; that is its build.
"""

from collections import Counter
from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.gpus import named, ranks_on
from nccldoctor.diagnose.merging import merged
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.topology import NEARNESS, Device, HostTopology

code = "TOPO03"
name = "slow-path-between-gpus"
severity = Severity.WARNING
needs = (Evidence.GRAPH, Evidence.HOST_STATE)
explains = ("PERF01",)
look_first = True
confirm = (
    "nvidia-smi topo -m; nvidia-smi nvlink -s -i GPU; nvidia-smi -q -i GPU | grep -A8 'PCI'  # that GPU's row beside its siblings' rows; lost links, slot, width",
)
remedy = (
    "export CUDA_VISIBLE_DEVICES=0,1,2,4,5,6,7  # without that GPU, until it is mended; costs its share of the speed",
    "sudo shutdown -h now  # then move the card to the slot beside its siblings; costs a visit to the rack",
)

_NEAR = NEARNESS["PXB"]
_SLOW = NEARNESS["PHB"]


def check(job: Job) -> Iterable[Found]:
    """One finding a host: GPUs whose nearest sibling is far, where most have a near one. Those of many hosts are one."""
    return merged(_each(job))


def _each(job: Job) -> Iterable[Found]:
    for topology in job.topology:
        best = _nearest(topology)
        if len(best) < 3:
            continue
        usual, count = Counter(kind for kind in best.values()).most_common(1)[0]
        odd = [
            g
            for g in topology.gpus
            if g.id in best and NEARNESS[best[g.id]] >= _SLOW and NEARNESS[usual] <= _NEAR
        ]
        if odd and count > len(best) / 2:
            yield _found(topology, odd, best[odd[0].id], usual)


def _nearest(topology: HostTopology) -> dict[str, str]:
    """GPU → the kind of path to its nearest sibling."""
    found = {}
    for gpu in topology.gpus:
        kinds = [
            path.kind
            for other in topology.gpus
            if other.id != gpu.id and (path := topology.path(gpu.id, other.id)) is not None
        ]
        known = [k for k in kinds if k in NEARNESS]
        if known:
            found[gpu.id] = min(known, key=lambda k: (NEARNESS[k], k))
    return found


def _found(topology: HostTopology, odd: list[Device], kind: str, usual: str) -> Found:
    return Found(
        title=f"{named(odd)} on {topology.host} reaches the other GPUs over {kind} at best, its siblings have {usual}",
        evidence=(topology.line,),
        confidence=Confidence.HIGH,
        ranks=ranks_on(odd),
        hosts=(topology.host,),
    )


def _machine(near: str, *kinds: str) -> str:
    """GPUs whose path to all others is the given kind; the rest of the pairs are near."""
    buses = [f"{i + 1}B000" for i in range(len(kinds))]
    text = "gpu-1:70:70 [0] NCCL INFO CPU/0 (1/1/2)\n"
    for bus in buses:
        text += f"gpu-1:70:70 [0] NCCL INFO + PCI[12.0] - GPU/{bus}\n"
    for a, one in enumerate(buses):
        text += f"gpu-1:70:70 [0] NCCL INFO GPU/{one} :"
        for b, two in enumerate(buses):
            kind = "LOC" if a == b else next((k for k in (kinds[a], kinds[b]) if k != near), near)
            text += f"GPU/{two} (1/20.0/{kind}) "
        text += "\n"
    return text


fires_on = {
    "one GPU across the sockets": _machine("PIX", "PIX", "PIX", "PIX", "SYS"),
    "one GPU lost its NVLinks": _machine("NVL", "NVL", "NVL", "NVL", "PHB"),
}
silent_on = {
    "all far alike": _machine("SYS", "SYS", "SYS", "SYS", "SYS"),
    "all joined": _machine("NVL", "NVL", "NVL", "NVL", "NVL"),
}
