"""Xid and SXid: what the driver's error numbers mean, and who is to blame."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Blame(str, Enum):
    """Who usually causes it."""

    HARDWARE = "hardware"
    APPLICATION = "application"
    DRIVER = "driver"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class Xid:
    """One number. `fatal` when work on that GPU was lost; `remedy` is what NVIDIA advises, shortly."""

    meaning: str
    blame: Blame
    fatal: bool
    remedy: str


_RESET = "drain the host, then nvidia-smi --gpu-reset -i GPU (or reboot); run dcgmi diag -r 3 before it works again"
_RMA = (
    "reset; when it comes back, replace the GPU (dcgmi diag -r 3 and the vendor's field diagnostic)"
)
_APP = "compute-sanitizer python train.py  # the program's own kernel; CUDA_LAUNCH_BLOCKING=1 names the call"
_LINK = "nvidia-smi nvlink -e -i GPU; reset all GPUs of the host and restart nvidia-fabricmanager"

XIDS: Mapping[int, Xid] = {
    8: Xid("a kernel ran too long and was stopped", Blame.APPLICATION, True, _APP),
    13: Xid("an exception of the graphics engine: mostly an access out of bounds", Blame.APPLICATION, True, _APP),
    31: Xid("a page fault of the GPU: an illegal address in a kernel", Blame.APPLICATION, True, _APP),
    32: Xid("invalid or corrupted commands on the way to the GPU (PCIe, driver)", Blame.EITHER, True, _RESET),
    38: Xid("a fault of the driver's firmware", Blame.DRIVER, True, "update the driver"),
    43: Xid("the GPU stopped processing for one program", Blame.APPLICATION, True, _APP),
    44: Xid("a fault of the graphics engine", Blame.EITHER, True, _RESET),
    45: Xid("a program's channels were cleaned up after it ended or faulted", Blame.APPLICATION, False, _APP),
    46: Xid("the GPU stopped processing", Blame.EITHER, True, _RESET),
    48: Xid("an uncorrectable (double-bit) error of GPU memory", Blame.HARDWARE, True, _RESET),
    56: Xid("an error of the display engine", Blame.EITHER, False, _RESET),
    57: Xid("an error when GPU memory was programmed", Blame.EITHER, True, _RESET),
    61: Xid("the GPU's internal controller stopped", Blame.EITHER, True, _RESET),
    62: Xid("the GPU's internal controller halted", Blame.EITHER, True, _RESET),
    63: Xid("memory errors: a row or page is to be replaced by a spare", Blame.HARDWARE, False, "reset the GPU at the next chance, so that the spare is taken"),
    64: Xid("memory errors: no spare row or page could be taken", Blame.HARDWARE, True, _RMA),
    68: Xid("an exception of the video decoder", Blame.EITHER, False, _RESET),
    69: Xid("an exception of the graphics engine's class", Blame.EITHER, True, _RESET),
    74: Xid("an NVLink error", Blame.HARDWARE, True, _LINK),
    79: Xid("the GPU fell off the bus: PCIe, power or heat", Blame.HARDWARE, True, "reboot the host; reseat or replace the GPU, its riser and cables"),
    92: Xid("many corrected memory errors", Blame.HARDWARE, False, "watch it: nvidia-smi -q -d ECC,ROW_REMAPPER"),
    94: Xid("a contained memory error: only the program that read it ends", Blame.HARDWARE, True, "restart the job; reset the GPU when it is free"),
    95: Xid("an uncontained memory error: all programs on the GPU end", Blame.HARDWARE, True, _RESET),
    109: Xid("a time-out of a context switch", Blame.EITHER, True, _APP),
    119: Xid("the GPU's system processor (GSP) does not answer", Blame.DRIVER, True, "reset the GPU; update the driver"),
    120: Xid("the GPU's system processor (GSP) stopped", Blame.DRIVER, True, "reset the GPU; update the driver"),
    121: Xid("a corrected error of the CPU-GPU link (C2C)", Blame.HARDWARE, False, "watch it"),
    122: Xid("the serial memory of the board cannot be read", Blame.HARDWARE, False, _RMA),
    136: Xid("a link could not be trained again", Blame.HARDWARE, True, _LINK),
    137: Xid("an illegal access to a peer over NVLink, mostly by the program", Blame.APPLICATION, True, _APP),
    140: Xid("an unrecovered error of GPU memory", Blame.HARDWARE, True, _RESET),
    143: Xid("the GPU could not be set up", Blame.HARDWARE, True, _RESET),
    144: Xid("an NVLink error (Blackwell)", Blame.HARDWARE, True, _LINK),
    145: Xid("an NVLink error (Blackwell)", Blame.HARDWARE, True, _LINK),
    146: Xid("an NVLink error (Blackwell)", Blame.HARDWARE, True, _LINK),
    147: Xid("an NVLink error (Blackwell)", Blame.HARDWARE, True, _LINK),
    148: Xid("an NVLink error (Blackwell)", Blame.HARDWARE, True, _LINK),
    149: Xid("an NVLink error (Blackwell)", Blame.HARDWARE, True, _LINK),
    150: Xid("an NVLink error (Blackwell)", Blame.HARDWARE, True, _LINK),
}  # fmt: skip
"""Source: NVIDIA, "XID Errors", docs.nvidia.com/deploy/xid-errors, in own words."""

LOST = 79
NVLINK = frozenset({74, 136, 144, 145, 146, 147, 148, 149, 150})
MEMORY = frozenset({48, 63, 64, 92, 94, 95, 140})

SXIDS: Mapping[int, str] = {
    11001: "an invalid command on ingress",
    11004: "an access that the switch's access list refuses",
    11012: "a single-bit error in a header, corrected",
    11013: "a double-bit error in a header",
    12028: "a privileged access that was refused on egress",
    19084: "a heartbeat that did not come",
    20001: "packets that were sent again",
    20034: "a link that went down (LTSSM fault up)",
    22013: "a link controller's interrupt",
}
"""NVSwitch errors; source: NVIDIA Fabric Manager user guide, appendix on NVSwitch SXid errors."""


def xid(number: int) -> Xid:
    """What this number means; an unknown one says so."""
    return XIDS.get(
        number, Xid("an error that this table does not list", Blame.EITHER, True, _RESET)
    )
