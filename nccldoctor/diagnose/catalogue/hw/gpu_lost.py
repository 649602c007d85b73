"""A GPU is gone: it fell off the bus, or the driver cannot reach it any more.

PCIe, power or heat; sometimes a driver's fault. Every process on it fails, and the others wait for those. Nothing but a
reboot brings it back, and one that comes back like this twice belongs replaced.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.words import who
from nccldoctor.knowledge.xid import LOST
from nccldoctor.model.event import Event
from nccldoctor.model.events.machine import GpuLost, Xid
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "HW05"
name = "gpu-lost"
severity = Severity.ERROR
needs = (Evidence.KERNEL, Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = (
    "CRASH01",
    "CRASH02",
    "NET10",
    "HANG01",
    "HANG02",
    "HANG04",
    "INIT06",
)
confirm = (
    "dmesg -T | grep -iE 'xid|pcieport|aer' | head -20  # what came first: PCIe errors, power, or the GPU alone",
)
remedy = (
    "sudo reboot  # on a drained host, then: nvidia-smi -L; costs all jobs of the host; where the GPU stays away, a power cycle",
    "scontrol update nodename=HOST state=drain reason=gpu-lost  # when it happens again: reseat or replace the GPU, its riser and power cables; costs the host until then",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a GPU."""
    lost: list[Event] = [*job.events(GpuLost)]
    lost += [e for e in job.events(Xid) if e.number == LOST and not e.switch]
    for gpu, events in apart(lost, lambda e: _name(e)).items():
        named = f"GPU {gpu}" if gpu else f"{who(job, events)}: a GPU"
        yield told_by(job, events, f"{named} is lost: the driver cannot reach it")


def _name(event: Event) -> str:
    if isinstance(event, Xid):
        return event.bus_id.lower().partition(".")[0]
    gpu = event.gpu if isinstance(event, GpuLost) else None
    return (gpu or "").lower().partition(".")[0]


fires_on = {
    "kernel": "[ 3012.1] NVRM: GPU 0000:c1:00.0: GPU has fallen off the bus.\n",
    "Xid": "[ 3012.1] NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
    "nvidia-smi": "Unable to determine the device handle for GPU 0000:C1:00.0: GPU is lost.  Reboot the system to recover this GPU\n",
    "2.14+": "gpu-1:71:71 [0] misc/nvmlwrap.cc:183 NCCL WARN nvmlDeviceGetHandleByPciBusId() failed: GPU is lost\n",
}
silent_on = {
    "another Xid": "[ 3012.1] NVRM: Xid (PCI:0000:c1:00): 31, pid=4711, name=python3, Ch 00000008, MMU Fault\n",
}
