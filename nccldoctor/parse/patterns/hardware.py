"""Kernel, driver and nvidia-smi on ill hardware; and what NCCL's own check says of it."""

from nccldoctor.model.events import machine, nccl
from nccldoctor.parse.pattern import Pattern

NCCL = [
    Pattern(
        machine.GpuLost,
        "GPU is lost",
        r"(?P<message>nvml\w+\([^)]*\) failed: GPU is lost)",
        {"2.14+": "nvmlDeviceGetHandleByPciBusId() failed: GPU is lost"},
    ),
]

TEXT = [
    Pattern(
        machine.Xid,
        "NVRM: Xid",
        r"NVRM: Xid \(PCI:(?P<bus_id>[0-9A-Fa-f:.]+)\): (?P<number>\d+),? ?(?P<text>.*?)\s*$",
        {
            "kernel": "[ 3012.114] NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "syslog": "Nov 30 04:12:09 node-7 kernel: NVRM: Xid (PCI:0000:1b:00): 94, pid=4711, name=python, Contained: SM (0x1). RST: No, D-RST: No",
        },
    ),
    Pattern(
        machine.Xid,
        "SXid (",
        r"SXid \(PCI:(?P<bus_id>[0-9A-Fa-f:.]+)\): (?P<number>\d+),? ?(?P<text>.*?)\s*$",
        {
            "NVSwitch": "nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 32 LTSSM Fault Up"
        },
        {"switch": True},
    ),
    Pattern(
        machine.GpuLost,
        "fallen off the bus",
        r"NVRM: GPU (?P<gpu>[0-9A-Fa-f:.]+): (?P<message>GPU has fallen off the bus)",
        {"kernel": "NVRM: GPU 0000:c1:00.0: GPU has fallen off the bus."},
    ),
    Pattern(
        machine.GpuLost,
        "fallen off the bus",
        r"NVRM: (?P<message>fallen off the bus and is not responding)",
        {
            "kernel, at start": "               NVRM: fallen off the bus and is not responding to commands."
        },
    ),
    Pattern(
        machine.GpuLost,
        "GPU is lost",
        r"(?:device handle for GPU ?(?P<gpu>[0-9A-Fa-f:.]+): )?(?P<message>GPU is lost)",
        {
            "nvidia-smi": "Unable to determine the device handle for GPU 0000:C1:00.0: GPU is lost.  Reboot the system to recover this GPU"
        },
    ),
    Pattern(
        machine.GpuLost,
        "Unable to determine the device handle for ",
        r"(?i:device handle for gpu ?(?P<gpu>[0-9A-F:.]+): (?P<message>Unknown Error))",
        {
            "nvidia-smi 545+": "Unable to determine the device handle for GPU0000:03:00.0: Unknown Error",
            "nvidia-smi 535+": "Unable to determine the device handle for gpu 0000:C1:00.0: Unknown Error",
        },
    ),
    Pattern(
        machine.EccCounted,
        "ECC: ",
        r"NCCL DIAG \[INFO\]\s+ECC: (?P<kind>uncorrected|corrected) volatile errors (?:on|at or above threshold on) "
        r"rank\(s\) (?P<subject>\{[^}]*\})(?: \(worst=(?P<count>\d+)\))?",
        {
            "2.31+": "gpu-node-01:1048 NCCL DIAG [INFO] ECC: uncorrected volatile errors on rank(s) {3} (worst=2) across 8 ranks in comm 0x4897ee6c86894e77"
        },
    ),
    Pattern(
        machine.NvlinkFault,
        "NVLink: ",
        r"NCCL DIAG \[INFO\]\s+NVLink: (?P<fault>inactive link\(s\)|inconsistent link speeds) on rank\(s\) (?P<subject>\{[^}]*\})",
        {
            "2.31+": "gpu-node-01:1048 NCCL DIAG [INFO] NVLink: inactive link(s) on rank(s) {3} across 8 ranks in comm 0x4897ee6c86894e77"
        },
    ),
    Pattern(
        nccl.Noise,
        "NVRM: loading",
        r"NVRM: loading NVIDIA",
        {"kernel": "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.159.04"},
    ),
]
