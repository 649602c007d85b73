"""The kernel's view of the GPUs is hidden from the process.

NCCL reads PCI paths from /sys, RCCL also /sys/class/kfd. In a container or chroot that hides them it sees no switches,
no NUMA nodes and no links, and guesses; AMD GPUs need /dev/kfd to be seen at all.
Not a fault: addresses of NVSwitches (fffffff:ff:f), which have no path in any machine.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import some, who
from nccldoctor.model.events.platform import TopologyUnreadable
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "TOPO17"
name = "gpu-topology-unreadable"
severity = Severity.WARNING
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("TOPO01", "TOPO05", "TOPO06", "TOPO07", "PERF01")
confirm = ("ls -l /sys/bus/pci/devices /sys/class/kfd/kfd/topology/nodes  # inside the container",)
remedy = (
    "docker run -v /sys:/sys:ro …  # do not mask /sys; with gVisor or chroot, mount it; costs showing the host's devices to the container",
    "docker run --device=/dev/kfd --device=/dev/dri --group-add video --security-opt seccomp=unconfined …  # AMD; costs the seccomp filter",
)


def check(job: Job) -> Iterable[Found]:
    """One finding with the first hidden paths."""
    events = job.events(TopologyUnreadable)
    if events:
        hidden = some(sorted({e.what for e in events}), 2)
        yield told_by(
            job,
            events,
            f"{who(job, events, 'A process')} cannot read {hidden}: NCCL guesses the machine's topology",
        )


fires_on = {
    "2.4+": "gpu-1:71:71 [0] graph/xml.cc:1 NCCL WARN Could not find real path of /sys/class/pci_bus/0000:c1/../../0000:c1:00.0",
    "RCCL 6.x": "mi-1:71:71 [1] /src/misc/alt_rsmi.cc:653 NCCL WARN Could not read node # 4",
    "ROCm": "Unable to open /dev/kfd read-write: No such file or directory",
    "RCCL": "mi-1:71:71 [0] /src/graph/xml.cc:1 NCCL WARN Could not open /sys/class/kfd/kfd/topology/nodes/1/properties",
}
silent_on = {
    "NVSwitch's address": "gpu-1:71:71 [0] NCCL INFO Could not find real path of /sys/class/pci_bus/fffffff/../../fffffff:ff:f",
}
