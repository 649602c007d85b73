"""NVLinks report errors or went down.

A cable, connector or GPU of the NVLink fabric is at fault; traffic is sent again (slow) or lost (the job ends). Counters
that stand still since long ago are history. A link that is missing everywhere is how the product is built.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.reasons import NVLINK as NVLINK_ERROR
from nccldoctor.diagnose.reasons import failures
from nccldoctor.diagnose.words import lines, who
from nccldoctor.knowledge.xid import NVLINK
from nccldoctor.model.events.machine import NvlinkFault, Xid
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "HW03"
name = "nvlink-errors"
severity = Severity.ERROR
needs = (Evidence.KERNEL, Evidence.HOST_STATE, Evidence.OUTPUT, Evidence.NCCL_LOG)
explains = ("CRASH01", "CRASH02", "NET10", "HANG02", "HANG04", "PERF01", "TOPO04")
confirm = (
    "nvidia-smi nvlink -e; nvidia-smi nvlink -s  # error counters and state of each link; twice, a minute apart: do they grow?",
)
remedy = (
    "sudo systemctl stop nvidia-fabricmanager; sudo nvidia-smi -r; sudo systemctl start nvidia-fabricmanager  # on a drained host: all its GPUs and switches together; costs all jobs of the host",
    "scontrol update nodename=HOST state=drain reason=nvlink  # when it comes back: the GPU or NVLink part that the counters name is to be replaced; costs the host until then",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a GPU for Xids, one for fatal switch errors, one for NCCL's own check."""
    told = [e for e in job.events(Xid) if e.number in NVLINK and not e.switch]
    told = [e for e in told if "nonfatal" not in e.text.lower()]
    for bus, events in apart(told, lambda e: e.bus_id).items():
        yield Found(
            title=f"GPU {bus}: NVLink error (Xid {events[0].number})",
            evidence=lines(events),
            hosts=job.hosts_of(events),
        )
    fatal = [e for e in job.events(Xid) if e.switch and e.text.lower().startswith("fatal")]
    if fatal:
        yield Found(
            title=f"NVSwitch {fatal[0].bus_id}: fatal error (SXid {fatal[0].number})",
            evidence=lines(fatal),
            hosts=job.hosts_of(fatal),
        )
    if struck := failures(job, NVLINK_ERROR):
        yield told_by(
            job,
            struck,
            f"{who(job, struck)} was stopped by an NVLink error that the hardware could not mend",
        )
    for fault in job.events(NvlinkFault):
        yield Found(
            title=f"NCCL's check finds {fault.fault} on rank(s) {fault.subject}",
            evidence=(fault.line,),
            ranks=tuple(
                sorted(int(p) for p in fault.subject.strip("{}").split(",") if p.strip().isdigit())
            ),
            hosts=job.hosts_of([fault]),
            severity=Severity.WARNING,
        )


fires_on = {
    "74": "[ 3012.114] NVRM: Xid (PCI:0000:c1:00): 74, pid=4711, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0)\n",
    "cudaErrorNvlinkUncorrectable": "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution\n",
    "SXid": "nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 32 LTSSM Fault Up\n",
    "149, Blackwell": "[171167.620236] NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000 0x00000000)\n",
    "2.31+, NCCL's own check": "gpu-1:81 NCCL DIAG [INFO] NVLink: inactive link(s) on rank(s) {3} across 8 ranks in comm 0x4897ee6c86894e77\n",
}
silent_on = {
    "145, nonfatal": "[ 3012.1] NVRM: Xid (PCI:0000:c1:00): 145, RLW_RXPIPE  Nonfatal   XC0 i0 Link 03 (0x00000086 0x00000008 0x00000000)\n",
    "2.31+, nothing": "gpu-1:81 NCCL DIAG [OK]   NVLink: 18 links per GPU, all active at consistent speed across 2 ranks in comm 0x4897ee6c86894e77\n",
    "a non-fatal switch error": "nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 11012, Non-fatal, Link 46 ingress header ECC\n",
}
