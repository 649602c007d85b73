"""The library advises a host setting that is missing; nothing has failed yet.

RCCL looks at the kernel command line, NUMA balancing and its environment when it starts, and warns of what is known to
lead to hangs or slow runs.
Not this: advice on the IOMMU beside a hang or wrong data, which is TOPO11.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import some, who
from nccldoctor.model.events.platform import HostAdvice
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "TOPO15"
name = "host-setup-advice"
severity = Severity.WARNING
needs = (Evidence.NCCL_LOG,)
explains = ()
confirm = (
    "cat /proc/cmdline /proc/sys/kernel/numa_balancing; env | grep HSA_  # what is missing on this host",
)
remedy = (
    "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&iommu=pt amd_iommu=on /' /etc/default/grub && sudo update-grub && sudo reboot  # on each host; costs a reboot",
    "sudo sysctl kernel.numa_balancing=0  # and in /etc/sysctl.d to keep it; costs pages that move to the CPU that uses them",
    "export HSA_FORCE_FINE_GRAIN_PCIE=1  # peer-to-peer over PCIe on AMD GPUs; costs nothing",
)


def check(job: Job) -> Iterable[Found]:
    """One finding with all missing settings."""
    advice = job.events(HostAdvice)
    if advice:
        settings = some(sorted({e.setting for e in advice}))
        yield told_by(job, advice, f"{who(job, advice, 'A host')}: the library misses {settings}")


fires_on = {
    "kernel command line": 'mi-1:71:71 [0] /src/init.cc:1 NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!',
    "environment": 'mi-1:71:71 [0] /src/init.cc:1 NCCL WARN Missing "HSA_FORCE_FINE_GRAIN_PCIE=1" from environment which can lead to low RCCL performance, system instablity or hang!',
    "NUMA balancing": 'mi-1:71:71 [0] /src/init.cc:1 NCCL WARN NUMA auto balancing enabled which can lead to variability in the RCCL performance! Disable by "sudo sysctl kernel.numa_balancing=0"',
}
silent_on = {
    "RCCL without advice": "mi-1:71:71 [0] NCCL INFO RCCL version : 2.21.5-HEAD:0cbce2a",
}
