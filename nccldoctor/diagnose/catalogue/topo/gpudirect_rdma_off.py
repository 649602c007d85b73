"""Traffic over InfiniBand, RoCE or EFA is staged in host memory instead of going straight to the GPU.

Channels then read `via NET/IB/0` without `/GDRDMA`. NCCL needs nvidia-peermem or dma-buf, a NIC near enough to the GPU
(NCCL_NET_GDR_LEVEL), and no ACS between them; without it bandwidth halves and latency grows.
Not a fault: sockets, where such wording means nothing; the sending side alone, where NCCL reads GPU memory over RDMA
only on some machines; GeForce cards, which cannot; a plugin's network without any sign that it could (EFA on small
instances).
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.networks import SLOW, is_rdma
from nccldoctor.diagnose.settings import library_version, named
from nccldoctor.diagnose.words import lines, ranges, some
from nccldoctor.knowledge.path_types import MEANING, path_type
from nccldoctor.model.event import Event
from nccldoctor.model.events.gpus import GpuState
from nccldoctor.model.events.nccl import GpuDirect
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.topology import Connection

code = "TOPO05"
name = "gpudirect-rdma-off"
severity = Severity.WARNING
needs = (Evidence.INFO_LOG,)
explains = ("PERF01",)
confirm = (
    "lsmod | grep -E 'nvidia_peermem|nv_peer_mem'; modinfo nvidia | grep license; nvidia-smi topo -m  # the module, or open kernel modules (dma-buf); GPU and NIC should be PIX or PXB",
    "lspci -vvv | grep ACSCtl  # ACS must be off: SrcValid-",
)
remedy = (
    "sudo modprobe nvidia-peermem  # on each host, and in /etc/modules-load.d to keep it; costs nothing; not needed with dma-buf (open kernel modules, Linux 5.12 and later)",
    "unset NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ NCCL_DMABUF_ENABLE  # costs nothing",
    "export NCCL_NET_GDR_LEVEL=PHB  # where NIC and GPU share a CPU but no switch; costs PCIe bandwidth through the CPU: keep it only if nccldoctor probe is faster",
)

_SETTINGS = (
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_DMABUF_ENABLE",
    "NCCL_IB_CUDA_SUPPORT",
)


def check(job: Job) -> Iterable[Found]:
    """One finding: the hosts whose receiving connections all lack GPUDirect."""
    rdma = [c for c in job.connections if c.transport == "NET" and is_rdma(c.network)]
    judged = [c for c in rdma if c.direction != "send"] or rdma
    by_host: dict[str, list[Connection]] = {}
    for connection in judged:
        host = connection.target_host if connection.direction != "send" else connection.source_host
        by_host.setdefault(host or "", []).append(connection)
    staged = {h: cs for h, cs in by_host.items() if not any(c.gdr for c in cs)}
    elsewhere = any(c.gdr for c in rdma)
    sure = elsewhere or any(
        e.state == "Disabled" and e.network != SLOW for e in job.events(GpuDirect)
    )
    own = all((c.network or "").startswith("IB") for c in rdma)
    if staged and (sure or own):
        yield _found(job, staged, elsewhere)


def _found(job: Job, staged: dict[str, list[Connection]], elsewhere: bool) -> Found:
    connections = [c for cs in staged.values() for c in cs]
    hosts = tuple(sorted(h for h in staged if h))
    told = [e for e in job.events(GpuDirect) if e.state == "Disabled" and e.network != SLOW]
    set_by = named(job, *_SETTINGS)
    reasons = [_by_nccl(told[0], library_version(job))] if told else []
    reasons += [f"{s.variable}={s.value} is set" for s in set_by[:2]]
    reasons += ["other hosts of this job use it"] if elsewhere else []
    ranks = {
        r
        for c in connections
        for p in (c.target_process if c.direction != "send" else c.source_process,)
        if p is not None and (r := job.processes[p].rank) is not None
    }
    one = len(ranks) == 1
    whose = (
        f"Rank{'s' * (not one)} {ranges(ranks)} on {some(hosts)}"
        if ranks
        else f"Ranks on {some(hosts)}"
    )
    networks = some(sorted({c.network for c in connections if c.network}))
    proof: list[Event] = [*told[:1], *(s.event for s in set_by[:1])]
    why = f" ({'; '.join(reasons)})" if reasons else ""
    return Found(
        title=f"{whose} receive{'s' * one} over {networks} without GPUDirect RDMA: data is staged in host memory{why}",
        evidence=tuple(c.line for c in connections[:3]) + lines(proof),
        confidence=Confidence.HIGH if told or elsewhere else Confidence.MEDIUM,
        ranks=tuple(ranks),
        hosts=hosts,
        severity=Severity.NOTE if _cannot(job) else None,
    )


def _by_nccl(told: GpuDirect, version: str | None) -> str:
    """NCCL's own words; its numbers of distances by name, where the version tells which name each had."""
    text = f"NCCL says that it is disabled for {told.subject.strip()}"
    if told.distance is None or told.limit is None:
        return text
    far, limit = path_type(told.distance, version), path_type(told.limit, version)
    if far is None or limit is None:
        return f"{text}: distance {told.distance}, above the limit of {told.limit}"
    return f"{text}: {MEANING[far]} ({far}) lies between them, and the limit is {limit}"


def _cannot(job: Job) -> bool:
    """Are these cards that have no GPUDirect RDMA at all?"""
    names = [g.name for g in job.events(GpuState) if g.name]
    return bool(names) and all("GeForce" in n for n in names)


_PAIR = (
    "gpu-1:71:71 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0xaa - Init START\n"
    "gpu-2:81:81 [0] NCCL INFO ncclCommInitRank comm 0x2 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0xaa - Init START\n"
    "gpu-1:71:71 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/{0}\n"
    "gpu-2:81:81 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/{1}\n"
    "gpu-1:71:71 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/{2}\n"
)

fires_on = {
    "2.12+, all hosts": _PAIR.format("IB/0", "IB/0", "IB/0"),
    "one host of two": _PAIR.format("IB/0/GDRDMA", "IB/0", "IB/0/GDRDMA"),
    "said by NCCL": "gpu-1:71:71 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
    + _PAIR.format("IB/0", "IB/0", "IB/0"),
    "too far apart, 2.12-2.20": "gpu-1:71:71 [0] NCCL INFO NCCL version 2.18.3+cuda12.2\n"
    "gpu-1:71:71 [0] NCCL INFO GPU Direct RDMA Disabled for GPU 1b000 / HCA 3 (distance 7 > 4)\n"
    + _PAIR.format("IB/0", "IB/0", "IB/0"),
    "too far apart, 2.29": "gpu-1:71:71 [0] NCCL INFO NCCL version 2.29.7+cuda13.0\n"
    "gpu-1:71:71 [0] NCCL INFO GPU Direct RDMA Disabled for GPU/0-1b000 (rank 0) - NET/0-0 (distance 9 > 5, read 0, mode Default)\n"
    + _PAIR.format("IB/0", "IB/0", "IB/0"),
    "no module, 2.5-2.12": "gpu-1:71:71 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)\n"
    + _PAIR.format("IB/0", "IB/0", "IB/0"),
    "EFA, one host of two": _PAIR.format(
        "AWS Libfabric/0/GDRDMA/Shared", "AWS Libfabric/0/Shared", "AWS Libfabric/0"
    ),
    "RCCL": _PAIR.format(
        "IB/0 comm 0x1 nRanks 02", "IB/0 comm 0x2 nRanks 02", "IB/0 comm 0x1 nRanks 02"
    ),
}
silent_on = {
    "FastSocket": _PAIR.format("FastSocket/0", "FastSocket/0", "FastSocket/0"),
    "EFA without GPUDirect anywhere": _PAIR.format(
        "AWS Libfabric/0", "AWS Libfabric/0", "AWS Libfabric/0"
    ),
    "in use": _PAIR.format("IB/0/GDRDMA", "IB/0/GDRDMA", "IB/0/GDRDMA"),
    "sending side reads host memory": _PAIR.format("IB/0/GDRDMA", "IB/0/GDRDMA", "IB/0"),
    "sockets": "gpu-1:71:71 [0] NCCL INFO NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'\n"
    + _PAIR.format("Socket/0", "Socket/0", "Socket/0"),
}
