"""GPUs that NVLink joins talk through shared memory or the network.

With peer-to-peer access off, NCCL copies through host memory: on two H200 that is 28 instead of 327 GB/s. P2P is off
because of a variable (NCCL_P2P_DISABLE, NCCL_P2P_LEVEL), a driver that reports no peer access (NVLink down, IOMMU or
ACS in the way), or containers that do not share IPC.
Not a fault: GPUs without NVLink; there shared memory is the right way, and `P2P is disabled between connected GPUs`
(INFO) speaks of PCIe neighbours: a note.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.gpus import nvlinked, over_net_inside, ranks_at
from nccldoctor.diagnose.merging import merged
from nccldoctor.diagnose.settings import Setting, on
from nccldoctor.diagnose.settings import named as settings_named
from nccldoctor.diagnose.words import lines, ranges, who
from nccldoctor.model.events.nccl import CommComplete
from nccldoctor.model.events.platform import Partition, PeerAccessFailed
from nccldoctor.model.events.trouble import P2pDisabled
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.topology import Connection

code = "TOPO01"
name = "p2p-not-used-between-nvlinked-gpus"
severity = Severity.WARNING
needs = (Evidence.INFO_LOG, Evidence.NCCL_LOG)
explains = ("TOPO07", "PERF01", "PERF04")
confirm = (
    "nvidia-smi topo -p2p r; nvidia-smi nvlink -s; env | grep -E 'NCCL_(P2P|SHM)'; grep -rs P2P ~/.nccl.conf /etc/nccl.conf  # every pair must say OK, every link show its speed, no variable be set",
)
remedy = (
    "unset NCCL_P2P_DISABLE NCCL_P2P_LEVEL  # costs nothing unless the hang that they hid comes back: then ACS or the IOMMU is to be mended",
    "docker run --ipc=host …  # or all ranks of a host in one container: peers must share the IPC namespace; costs that isolation",
    "for b in $(lspci -d '*:*:0604' | cut -d' ' -f1); do sudo setpci -s $b ECAP_ACS+0x6.w=0000; done  # ACS off until the next boot; costs isolation between virtual machines; the IOMMU: iommu=pt on the kernel command line, costs a reboot",
)


def check(job: Job) -> Iterable[Found]:
    """NCCL's own warning first, then what the channels show, then refused peer access, then the notice on PCIe. Those of many hosts are one."""
    return merged(_each(job))


def _each(job: Job) -> Iterable[Found]:
    disabled = job.events(P2pDisabled)
    linked = [e for e in disabled if e.nvlink]
    around = [
        c
        for c in job.connections
        if c.inside_host and (c.transport == "SHM" or over_net_inside(job, c)) and nvlinked(job, c)
    ]
    if linked:
        pairs = ", ".join(
            sorted({f"{min(e.first, e.second)}-{max(e.first, e.second)}" for e in linked})
        )
        yield told_by(
            job,
            linked,
            f"{who(job, linked)}: peer-to-peer access is off between GPUs that NVLink joins ({pairs})",
        )
    for host in sorted({c.source_host for c in around if c.source_host}):
        if not linked:
            yield _around(job, host, [c for c in around if c.source_host == host])
    if not linked and not around:
        yield from _refused(job)
    if disabled and not linked and not around:
        yield _pcie(job, disabled)


def _around(job: Job, host: str, connections: list[Connection]) -> Found:
    ways = " and ".join(sorted({c.transport for c in connections}))
    ranks = ranks_at(job, connections)
    setting = _switched_off(job)
    why = f": {setting.variable}={setting.value}" if setting else ""
    whose = f"Ranks {ranges(ranks)} on {host}" if ranks else f"Ranks on {host}"
    proof = tuple(c.line for c in connections[:3])
    return Found(
        title=f"{whose} talk over {ways} although NVLink joins their GPUs{why}",
        evidence=proof + (lines([setting.event]) if setting else ()),
        confidence=Confidence.HIGH,
        ranks=ranks,
        hosts=(host,),
        consequence=setting is not None,
    )


def _switched_off(job: Job) -> Setting | None:
    off = [s for s in settings_named(job, "NCCL_P2P_DISABLE") if on(s)]
    level = [s for s in settings_named(job, "NCCL_P2P_LEVEL") if s.value.upper() in ("LOC", "0")]
    return next(iter([*off, *level]), None)


def _refused(job: Job) -> Iterable[Found]:
    """Peer access or IPC that CUDA refuses; a partitioned GPU is TOPO12."""
    failed = job.events(PeerAccessFailed)
    if failed and not job.events(Partition):
        fatal = not job.events(CommComplete)
        yield told_by(
            job,
            failed,
            f"{who(job, failed)}: {failed[0].reason[:160]}",
            confidence=Confidence.MEDIUM,
            severity=Severity.ERROR if fatal else None,
        )


def _pcie(job: Job, events: list[P2pDisabled]) -> Found:
    return told_by(
        job,
        events,
        f"{who(job, events)}: peer-to-peer access is off between PCIe neighbours; without NVLink shared memory is the way",
        evidence=lines(events[:2]),
        confidence=Confidence.MEDIUM,
        severity=Severity.NOTE,
    )


_PATHS = "gpu-1:71:71 [0] NCCL INFO GPU/{0}1B000 :GPU/{0}1B000 (0/5000.000000/LOC) GPU/{0}3D000 (2/120.000000/{1})\n"
_TREE = (
    "gpu-1:71:71 [0] NCCL INFO CPU/0 (1/1/2)\n"
    "gpu-1:71:71 [0] NCCL INFO + PCI[12.0] - GPU/1B000 (0)\n"
    "gpu-1:71:71 [0] NCCL INFO               + NVL[120.0] - NVS/0\n"
    "gpu-1:71:71 [0] NCCL INFO + PCI[12.0] - GPU/3D000 (1)\n"
    "gpu-1:71:71 [0] NCCL INFO               + NVL[120.0] - NVS/0\n"
)
_PAIR = (
    "gpu-1:71:71 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE\n"
    "gpu-1:72:72 [1] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 1 busId 3d000 - Init COMPLETE\n"
    "gpu-1:71:71 [0] NCCL INFO Channel 00 : 0[1b000] -> 1[3d000] via {0}\n"
)

fires_on = {
    "2.12+, NVLink": "gpu-1:71:71 [0] graph/paths.cc:1 NCCL WARN P2P is disabled between NVLINK connected GPUs 1 and 0. This should not be the case given their connectivity, and is probably due to a hardware issue.",
    "2.7-2.12, shared memory": _TREE
    + _PATHS.format("", "PHB")
    + _PAIR.format("direct shared memory"),
    "2.13+, shared memory": _TREE + _PATHS.format("", "PHB") + _PAIR.format("SHM/direct/direct"),
    "IPC refused": "gpu-1:71:71 [0] transport/p2p.cc:1 NCCL WARN failed to open CUDA IPC handle : 1 invalid argument",
    "RCCL": _TREE
    + _PATHS.format("", "PHB")
    + _PAIR.format("SHM/direct/direct comm 0x7f3c nRanks 02"),
}
silent_on = {
    "P2P in use": _TREE + _PATHS.format("", "NVL") + _PAIR.format("P2P/IPC"),
    "no NVLink": _PATHS.format("", "PHB") + _PAIR.format("SHM/direct/direct"),
    "PCIe neighbours": "gpu-1:71:71 [0] NCCL INFO P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.",
}
