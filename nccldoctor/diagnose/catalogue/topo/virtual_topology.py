"""The host is a virtual machine that hides which GPU is near which NIC, and no topology file tells it.

Hypervisors put all devices on one flat bus (00, or VMBUS of Hyper-V), so NCCL takes every NIC to be equally far and
may send through the wrong one, without GPUDirect RDMA. Clouds ship a topology file for their machine types.
Not a fault: a topology file in use; a single host, or sockets only, where the distance to NICs changes nothing.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.networks import rdma, rdma_nics, spans_hosts
from nccldoctor.diagnose.settings import named
from nccldoctor.diagnose.words import who
from nccldoctor.knowledge.clouds import cloud_of_nic
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import CommComplete, CommStart
from nccldoctor.model.events.platform import NotPci
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "TOPO10"
name = "virtual-topology"
severity = Severity.WARNING
needs = (Evidence.INFO_LOG,)
explains = ("TOPO05", "TOPO06", "TOPO17", "PERF01")
confirm = (
    "lspci -t | head; ls /opt/microsoft/*topo*.xml /usr/share/*/nccl*topo*.xml 2>/dev/null; echo $NCCL_TOPO_FILE  # a flat bus, and which files the image has",
)
remedy = (
    "export NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml  # Azure: one per machine type, mounted into the container; costs nothing",
    "docker build --build-arg PLUGIN=aws-ofi-nccl .  # AWS aws-ofi-nccl and Google gIB bring and set their topology file; costs a new image",
    "NCCL_TOPO_DUMP_FILE=topo.xml python train.py  # on a bare-metal twin of the machine: writes a file that can be used here; costs one run there",
)


def check(job: Job) -> Iterable[Found]:
    """One finding: a warning where ranks span hosts over RDMA and all GPUs sit on bus 0, a note for other signs."""
    if named(job, "NCCL_TOPO_FILE"):
        return
    starts: list[CommStart] = [*job.events(CommStart), *job.events(CommComplete)]
    known = [e for e in starts if e.bus_id is not None]
    flat = [e for e in known if _bus(e.bus_id) == 0]
    hidden = job.events(NotPci)
    matters = spans_hosts(job) and bool(rdma(job) or rdma_nics(job))
    gpus = {(job.host_of(e), e.bus_id) for e in flat}
    if matters and len(gpus) > 1 and len(flat) == len(known):
        yield _found(
            job,
            [*flat[:3], *rdma(job)[:1]],
            "see all GPUs on PCI bus 00: the virtual machine hides how near NICs and GPUs are, and no NCCL_TOPO_FILE is set",
            Confidence.MEDIUM,
            None,
        )
    elif any("VMBUS" in e.path for e in hidden):
        yield _found(
            job,
            list(hidden[:3]),
            "attach network devices of VMBUS to the first CPU: the virtual machine hides their place",
            Confidence.HIGH,
            None if matters else Severity.NOTE,
        )


def _bus(bus_id: str | None) -> int | None:
    """The PCI bus in NCCL's number: domain, bus (two hex digits), device (two), function (one)."""
    try:
        return int(bus_id or "", 16) >> 12 & 0xFF
    except ValueError:
        return None


def _found(
    job: Job, events: list[Event], what: str, confidence: Confidence, severity: Severity | None
) -> Found:
    clouds = {c.name: c for nic in rdma_nics(job) if (c := cloud_of_nic(nic)) is not None}
    known = next(iter(clouds.values())) if len(clouds) == 1 else None
    whose = f"; {known.name}: {known.topology_file}" if known else ""
    return told_by(
        job,
        events,
        f"{who(job, events, 'Processes')} {what}{whose}",
        confidence=confidence,
        severity=severity,
        remedy=(known.advice, *remedy[1:], *confirm) if known else (),
    )


_HCA = "gpu-{0}:71:71 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
_RANK = "gpu-{0}:7{1}:7{1} [0] NCCL INFO ncclCommInitRank comm 0x{1} rank {1} nranks 4 cudaDev 0 nvmlDev 0 busId {2} commId 0xaa - Init START\n"


def _four(*buses: str) -> str:
    text = _HCA.format(1) + _HCA.format(2)
    return text + "".join(_RANK.format(1 + i // 2, i, b) for i, b in enumerate(buses))


_VMBUS = "gpu-1:71:71 [0] NCCL INFO Topology detection: network path /sys/devices/LNXSYSTM:00/VMBUS:00/000d3a is not a PCI device (vmbus). Attaching to first CPU\n"

fires_on = {
    "KVM": _four("60", "70", "60", "70"),
    "Azure's domains": _four("100000", "200000", "100000", "200000"),
    "Hyper-V": _VMBUS,
}
silent_on = {
    "bare metal": _four("1b000", "3d000", "1b000", "3d000"),
    "with the cloud's file": "gpu-1:71:71 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /opt/microsoft/ndv4-topo.xml\n"
    + _four("100000", "200000", "100000", "200000"),
    "one host, no RDMA": _RANK.format(1, 0, "60") + _RANK.format(1, 1, "70"),
}
