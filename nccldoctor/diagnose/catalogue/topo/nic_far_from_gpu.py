"""A GPU sends through a NIC on the other side of the CPU interconnect, although a nearer one exists.

Traffic then crosses both CPUs, shares their link with everything else, and cannot use GPUDirect well. NCCL picks the
nearest NIC that it may use: NCCL_IB_HCA that leaves the near one out, a port that is down, or a missing topology file
of a virtual machine push it away.
Not a fault: a NIC reached through another GPU (PXN), a host whose only NIC is far from half of its GPUs, and sockets.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.gpus import gpu_of, named
from nccldoctor.diagnose.merging import merged
from nccldoctor.diagnose.networks import is_rdma
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.source import Line
from nccldoctor.model.topology import FAR, NEARNESS, Device, HostTopology

code = "TOPO06"
name = "nic-far-from-gpu"
severity = Severity.WARNING
needs = (Evidence.GRAPH, Evidence.HOST_STATE)
explains = ("PERF01", "TOPO05")
confirm = (
    "echo $NCCL_IB_HCA; ibstat | grep -E \"CA '|State|Physical\"; nvidia-smi topo -m  # what is chosen, whether the near NIC's port is down, GPU against NIC rows: PIX or PXB is near, SYS is far",
)
remedy = (
    "unset NCCL_IB_HCA  # or list all HCAs of the compute rails, the near ones too; costs nothing",
    "export NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml  # virtual machines: the cloud's file for this machine type; costs nothing",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a GPU that has a nearer NIC than the one it uses. Those of many hosts are one."""
    return merged(_each(job))


def _each(job: Job) -> Iterable[Found]:
    seen: set[tuple[str, str]] = set()
    for c in job.connections:
        if c.transport != "NET" or not is_rdma(c.network) or c.nic is None or c.proxy is not None:
            continue
        place = gpu_of(job, c.target_process if c.direction == "receive" else c.source_process)
        if place is None or (place[0].host, place[1].id) in seen:
            continue
        topology, gpu = place
        used = next((n for n in topology.nics if n.index == c.nic), None)
        near = _nearest(topology, gpu)
        if used is None or near is None or not _better(topology, gpu, near, used):
            continue
        seen.add((topology.host, gpu.id))
        yield _found(topology, gpu, used, near, c.line)


def _nearest(topology: HostTopology, gpu: Device) -> Device | None:
    reached = [
        n
        for n in topology.nics
        if (path := topology.path(gpu.id, n.id)) is not None and path.kind in NEARNESS
    ]
    return min(reached, key=lambda n: (_distance(topology, gpu, n), n.id), default=None)


def _distance(topology: HostTopology, gpu: Device, nic: Device) -> int:
    path = topology.path(gpu.id, nic.id)
    return NEARNESS.get(path.kind, FAR) if path is not None else FAR


def _better(topology: HostTopology, gpu: Device, near: Device, used: Device) -> bool:
    return _distance(topology, gpu, used) >= FAR > _distance(topology, gpu, near)


def _found(topology: HostTopology, gpu: Device, used: Device, near: Device, line: Line) -> Found:
    way, better = topology.path(gpu.id, used.id), topology.path(gpu.id, near.id)
    kinds = (way.kind if way else "?", better.kind if better else "?")
    return Found(
        title=f"{named([gpu])} on {topology.host} uses {used.id} over {kinds[0]} although {near.id} is nearer ({kinds[1]})",
        evidence=(line, topology.line),
        confidence=Confidence.HIGH,
        ranks=(gpu.rank,) if gpu.rank is not None else (),
        hosts=(topology.host,),
    )


_HOST = (
    "gpu-1:71:71 [0] NCCL INFO CPU/0 (1/1/2)\n"
    "gpu-1:71:71 [0] NCCL INFO + PCI[24.0] - GPU/1B000 (0)\n"
    "gpu-1:71:71 [0] NCCL INFO + PCI[24.0] - NIC/1C000\n"
    "gpu-1:71:71 [0] NCCL INFO               + NET[25.0] - NET/0 (0/1/25.000000)\n"
    "gpu-1:71:71 [0] NCCL INFO + SYS[10.0] - CPU/1\n"
    "gpu-1:71:71 [0] NCCL INFO CPU/1 (1/1/2)\n"
    "gpu-1:71:71 [0] NCCL INFO + PCI[24.0] - NIC/9C000\n"
    "gpu-1:71:71 [0] NCCL INFO               + NET[25.0] - NET/1 (1/1/25.000000)\n"
    "gpu-1:71:71 [0] NCCL INFO GPU/1B000 :GPU/1B000 (0/5000.0/LOC) NET/0 ({0}) NET/1 (5/10.0/SYS)\n"
    "gpu-1:71:71 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1b000 - Init START\n"
    "gpu-2:81:81 [0] NCCL INFO comm 0x2 rank 1 nranks 2 cudaDev 0 busId 1b000 - Init START\n"
    "gpu-1:71:71 [0] NCCL INFO Channel 00 : 0[1b000] -> 1[1b000] [send] via NET/{1}\n"
)

fires_on = {
    "near NIC left out": _HOST.format("3/24.0/PIX", "IB/1/GDRDMA"),
    "2.21+": _HOST.replace("GPU/1B", "GPU/0-1b")
    .replace("NET/0 ", "NET/0-0 ")
    .replace("NET/1 ", "NET/0-1 ")
    .format("3/24.0/PXB", "IB/1"),
}
silent_on = {
    "near NIC used": _HOST.format("3/24.0/PIX", "IB/0/GDRDMA"),
    "through another GPU": _HOST.format("3/24.0/PIX", "IB/1(3)/GDRDMA"),
    "both far": _HOST.format("5/10.0/SYS", "IB/1"),
    "sockets": _HOST.format("3/24.0/PIX", "Socket/1"),
}
