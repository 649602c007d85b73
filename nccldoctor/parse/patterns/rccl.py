"""What RCCL and ROCm alone say: host advice, hidden devices, faults of memory access."""

from nccldoctor.model.events import platform, torch
from nccldoctor.parse.pattern import Pattern, noise

NCCL = [
    Pattern(
        platform.HostAdvice,
        'Missing "',
        r'^Missing "(?P<setting>[^"]+)" from (?:kernel command line|environment)',
        {
            "kernel": 'Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!',
            "environment": 'Missing "HSA_FORCE_FINE_GRAIN_PCIE=1" from environment which can lead to low RCCL performance, system instablity or hang!',
        },
    ),
    Pattern(
        platform.HostAdvice,
        "NUMA auto balancing enabled",
        r"^NUMA auto balancing enabled",
        {
            "5.0+": 'NUMA auto balancing enabled which can lead to variability in the RCCL performance! Disable by "sudo sysctl kernel.numa_balancing=0"'
        },
        {"setting": "kernel.numa_balancing=0"},
    ),
    Pattern(
        platform.TopologyUnreadable,
        "/kfd/topology",
        r"(?P<what>/sys/(?:class|devices/virtual)/kfd/kfd/topology\S*)",
        {"RCCL": "Could not open /sys/class/kfd/kfd/topology/nodes/1/properties"},
    ),
    Pattern(
        platform.TopologyUnreadable,
        "Could not read node # ",
        r"^Could not read (?P<what>node # \d+)",
        {"6.x": "Could not read node # 4"},
    ),
    noise("Kernel version", all="Kernel version: 6.8.0-136-generic"),
    noise("Hipruntime version", all="Hipruntime version: 70253211, firmware version: 44"),
    noise("ROCr version", all="ROCr version 1.18"),
    noise("Dmabuf feature disabled", all="Dmabuf feature disabled without NCCL_DMABUF_ENABLE=1"),
    noise("DMA_BUF Support", all="DMA_BUF Support Enabled"),
    noise(
        "Could not open kernel conf file",
        all="Could not open kernel conf file, will assume CONFIG_DMABUF_MOVE_NOTIFY and CONFIG_PCI_P2PDMA are enabled",
    ),
    noise(
        "LL cutoff points not detected",
        all="LL cutoff points not detected for a supported arch gfx942",
    ),
    noise("MSCCL++: Cannot enable MSCCL++", all="MSCCL++: Cannot enable MSCCL++ on gfx942"),
    noise(
        "MSCCL: No external scheduler found",
        all="MSCCL: No external scheduler found, using internal implementation",
    ),
]

TEXT = [
    Pattern(
        platform.TopologyUnreadable,
        "/dev/kfd",
        r"Unable to open (?P<what>/dev/kfd)",
        {"ROCm": "Unable to open /dev/kfd read-write: No such file or directory"},
    ),
    Pattern(
        torch.CudaError,
        "Memory access fault by GPU node-",
        r"(?P<reason>Memory access fault by GPU node-\d+)",
        {
            "ROCm": "Memory access fault by GPU node-4 (Agent handle: 0x5581) on address 0x7f3a00000000. Reason: Page not present or supervisor privilege."
        },
    ),
    Pattern(
        torch.CudaError,
        "HIP error: ",
        r"HIP error: (?P<reason>.*\S)",
        {"2.0+": "RuntimeError: HIP error: an illegal memory access was encountered"},
    ),
]
