"""The IOMMU, or ACS in PCIe switches, stops devices from reaching each other's memory.

Peer-to-peer and GPUDirect RDMA let one device read another's memory. An IOMMU that translates addresses, or ACS that
sends the traffic up to the CPU first, makes such reads fail or return wrong data: a hang at the first use of P2P, faults
in the kernel log, InfiniBand's status 4 (local protection).
Not a fault: an IOMMU in pass-through mode; the advice of RCCL alone, when nothing fails (TOPO15).
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import some, who
from nccldoctor.model.event import Event
from nccldoctor.model.events.measured import BandwidthRow
from nccldoctor.model.events.platform import HostAdvice, IommuFault
from nccldoctor.model.events.torch import BackendError, WatchdogTimeout
from nccldoctor.model.events.trouble import CompletionError
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "TOPO11"
name = "p2p-blocked-by-iommu-or-acs"
severity = Severity.ERROR
needs = (Evidence.KERNEL, Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("NET01", "NET10", "HANG01", "HANG02", "HANG04", "COLL06", "CRASH01", "TOPO15", "PERF01")
confirm = (
    "dmesg | grep -iE 'DMAR|AMD-Vi|IO_PAGE_FAULT'; lspci -vvv | grep ACSCtl; cat /proc/cmdline  # proof before and after the change",
)
remedy = (
    "for b in $(lspci -d '*:*:0604' | cut -d' ' -f1); do sudo setpci -s $b ECAP_ACS+0x6.w=0000; done  # ACS off until the next boot; costs isolation between virtual machines",
    "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&iommu=pt /' /etc/default/grub && sudo update-grub && sudo reboot  # with intel_iommu=on or amd_iommu=on; costs a reboot",
)

_LOCAL_PROTECTION = 4


def check(job: Job) -> Iterable[Found]:
    """Faults in the kernel log first; then advice beside a hang or wrong data; then status 4 as a likely cause."""
    faults = job.events(IommuFault)
    if faults:
        devices = some(sorted({e.device for e in faults}))
        yield _found(
            job,
            list(faults),
            f"The IOMMU refused memory accesses of {devices}{_on(job, faults)}: peer-to-peer or GPUDirect traffic is blocked",
            Confidence.HIGH,
        )
        return
    advice = [e for e in job.events(HostAdvice) if "iommu" in e.setting]
    broken: list[Event] = [e for e in job.events(BandwidthRow) if e.wrong]
    broken += job.events(WatchdogTimeout)
    broken += [e for e in job.events(BackendError) if e.error == "internal error"]
    if advice and broken:
        settings = some(sorted({e.setting for e in advice}))
        yield _found(
            job,
            [*advice[:2], *broken[:2]],
            f"{who(job, advice, 'A host')} lacks {settings}, and the job hangs, fails or gets wrong data: peer-to-peer access is likely blocked",
            Confidence.MEDIUM,
        )
        return
    direct = [e for e in job.events(CompletionError) if e.status == _LOCAL_PROTECTION]
    if direct and any(c.gdr for c in job.connections):
        yield _found(
            job,
            list(direct),
            f"{who(job, direct)}: local protection errors on GPUDirect transfers; ACS or the IOMMU between GPU and NIC is a likely cause",
            Confidence.LOW,
            Severity.WARNING,
        )


def _on(job: Job, events: Iterable[Event]) -> str:
    hosts = job.hosts_of(events)
    return f" on {', '.join(hosts)}" if hosts else ""


def _found(
    job: Job,
    events: list[Event],
    title: str,
    confidence: Confidence,
    severity: Severity | None = None,
) -> Found:
    return told_by(job, events, title, confidence=confidence, severity=severity)


_ADVICE = 'mi-1:71:71 [0] /src/init.cc:1 NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!\n'
_TIMEOUT = "[rank0]:[E ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600026 milliseconds before timing out.\n"

fires_on = {
    "Intel": "[ 1021.3] DMAR: [DMA Read NO_PASID] Request device [c1:00.0] fault addr 0x38ffc0000000 [fault reason 0x06] PTE Read access is not set",
    "AMD": "nvidia 0000:c1:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT device=c1:00.0 domain=0x002c address=0x38ffc0000000 flags=0x0020]",
    "RCCL's advice and a hang": _ADVICE + _TIMEOUT,
    "RCCL's advice and a failure": _ADVICE
    + "mi-1: Test NCCL failure common.cu:1285 'internal error - please report this issue to the NCCL developers'\n",
    "status 4 with GPUDirect": (
        "gpu-1:71:71 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
        "gpu-1:71:75 [0] transport/net_ib.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<40822> with status=4 opcode=0 len=0 vendor err 81 (Recv) hca mlx5_0\n"
    ),
}
silent_on = {
    "advice alone": _ADVICE,
    "a hang alone": _TIMEOUT,
    "pass-through": "[    0.9] iommu: Default domain type: Passthrough (set via kernel command line)",
}
