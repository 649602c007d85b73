"""Xid and SXid: what the driver's error numbers mean, who is to blame, and what NVIDIA wants done about each."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Blame(str, Enum):
    """Who usually causes it."""

    HARDWARE = "hardware"
    APPLICATION = "application"
    DRIVER = "driver"
    EITHER = "either"


class Act(str, Enum):
    """What is to be done at once, as commands to paste; `GPU` stands for the bus id."""

    DEBUG = "compute-sanitizer --tool memcheck python train.py  # names the kernel and line; costs 10 to 100 times the time, so with one small batch"
    RESTART = "torchrun --max-restarts=3 …  # starts the job again, nothing of the machine needs a reset; costs the steps since the last checkpoint"
    RESET = "sudo nvidia-smi --gpu-reset -i GPU  # on a drained host, or reboot where it is refused; costs every process on that GPU"
    REBOOT = "sudo reboot  # on a drained host, nothing less brings the GPU back; costs all jobs of the host"
    LATER = "sudo nvidia-smi --gpu-reset -i GPU  # not now, when the host is free; costs every process on that GPU"
    LINK = "sudo systemctl stop nvidia-fabricmanager; sudo nvidia-smi -r; sudo systemctl start nvidia-fabricmanager  # on a drained host: all its GPUs and switches together; costs all jobs of the host"
    POWER = (
        "sudo shutdown -h now  # then plug in the board's power cable; costs a visit to the rack"
    )
    WATCH = "nvidia-smi -q -d ECC,ROW_REMAPPER -i GPU  # nothing to do now, look again in a day whether it grows; costs nothing"
    OTHER = "dmesg -T | grep -i xid  # another Xid just before this one is the cause: act on that; costs nothing"
    UPDATE = "sudo nvidia-smi --gpu-reset -i GPU  # on a drained host, a power cycle if it fails, a newer driver if it comes back; costs all jobs of the host"


@dataclass(frozen=True, slots=True)
class Xid:
    """One number. `fatal` when work on that GPU was lost; `act` is what NVIDIA wants done at once."""

    meaning: str
    blame: Blame
    fatal: bool
    act: Act

    @property
    def remedy(self) -> str:
        return self.act.value


_NVLINK5 = "of the GPU's NVLink 5 port (Blackwell); the line says Fatal or Nonfatal"

XIDS: Mapping[int, Xid] = {
    8: Xid("a kernel ran too long and was stopped", Blame.APPLICATION, True, Act.RESTART),
    11: Xid("a corrupted stream of commands", Blame.APPLICATION, True, Act.DEBUG),
    13: Xid("an exception of the compute engine: mostly an access out of bounds, or an illegal instruction", Blame.APPLICATION, True, Act.DEBUG),
    31: Xid("a page fault of the GPU: a kernel used an illegal address", Blame.APPLICATION, True, Act.DEBUG),
    32: Xid("corrupted commands on their way to the GPU: mostly the quality of the PCIe link", Blame.EITHER, True, Act.RESTART),
    38: Xid("a watchdog of the driver's firmware", Blame.DRIVER, False, Act.WATCH),
    43: Xid("a program hit a fault of its own and was ended; the GPU stays healthy", Blame.APPLICATION, True, Act.DEBUG),
    44: Xid("a fault of the compute engine while it switched programs", Blame.EITHER, True, Act.RESTART),
    45: Xid("a program's channels were cleaned up after it ended, was killed, or another Xid", Blame.APPLICATION, False, Act.OTHER),
    46: Xid("the GPU stopped processing", Blame.EITHER, True, Act.RESET),
    48: Xid("an uncorrectable (double-bit) memory error", Blame.HARDWARE, True, Act.RESET),
    54: Xid("the board's power cable is not plugged in", Blame.HARDWARE, True, Act.POWER),
    61: Xid("the GPU's power controller stopped (before Ampere)", Blame.EITHER, True, Act.RESET),
    62: Xid("the GPU's power controller (PMU) halted", Blame.EITHER, True, Act.RESET),
    63: Xid("a bad memory row or page is marked for replacement by a spare, which works", Blame.HARDWARE, False, Act.LATER),
    64: Xid("a bad memory row or page could not be replaced by a spare", Blame.HARDWARE, True, Act.RESET),
    66: Xid("an illegal access by the driver", Blame.DRIVER, False, Act.WATCH),
    68: Xid("an exception of the video decoder", Blame.EITHER, True, Act.RESTART),
    69: Xid("a class error of the compute engine", Blame.APPLICATION, True, Act.DEBUG),
    74: Xid("an NVLink error, up to Hopper: the link, or what is at its other end", Blame.HARDWARE, True, Act.LINK),
    79: Xid("the GPU fell off the bus: its PCIe link, power, heat, or the GPU itself", Blame.HARDWARE, True, Act.REBOOT),
    92: Xid("corrected memory errors at a high rate", Blame.HARDWARE, False, Act.WATCH),
    93: Xid("the limit of writes to the board's InfoROM is used up", Blame.EITHER, False, Act.WATCH),
    94: Xid("a contained memory error: only the program that met it must be restarted", Blame.HARDWARE, True, Act.RESTART),
    95: Xid("an uncontained memory error: every program on the GPU is affected", Blame.HARDWARE, True, Act.RESET),
    109: Xid("a time-out of a switch between programs", Blame.EITHER, True, Act.RESET),
    110: Xid("a security fault: mostly hardware, or a change to it", Blame.HARDWARE, True, Act.RESET),
    119: Xid("the GPU's system processor (GSP) does not answer the driver", Blame.DRIVER, True, Act.UPDATE),
    120: Xid("an error in the code of the GPU's system processor (GSP)", Blame.DRIVER, True, Act.UPDATE),
    121: Xid("corrected errors of the link to the Grace CPU (C2C), without any effect", Blame.HARDWARE, False, Act.LATER),
    136: Xid("an NVLink could not be trained (Hopper)", Blame.HARDWARE, True, Act.LINK),
    137: Xid("an illegal access to a peer's memory over NVLink", Blame.APPLICATION, True, Act.DEBUG),
    140: Xid("an uncorrectable memory error that kept the driver from marking the page", Blame.HARDWARE, True, Act.RESET),
    141: Xid("an error of CUDA's fast path", Blame.EITHER, False, Act.WATCH),
    143: Xid("the GPU could not be initialised", Blame.HARDWARE, True, Act.RESET),
    144: Xid(f"an error in unit SAW {_NVLINK5}", Blame.HARDWARE, True, Act.LINK),
    145: Xid(f"an error in unit RLW {_NVLINK5}", Blame.HARDWARE, True, Act.LINK),
    146: Xid(f"an error in unit TLW {_NVLINK5}", Blame.HARDWARE, True, Act.LINK),
    147: Xid(f"an error in unit TREX {_NVLINK5}", Blame.HARDWARE, True, Act.LINK),
    148: Xid(f"an error in unit NVLPW_CTRL {_NVLINK5}", Blame.HARDWARE, True, Act.LINK),
    149: Xid(f"a link event or an error in unit NETIR {_NVLINK5}", Blame.HARDWARE, True, Act.LINK),
    150: Xid(f"an error in unit MSE {_NVLINK5}", Blame.HARDWARE, True, Act.LINK),
    151: Xid("keys of confidential computing could not be changed", Blame.DRIVER, True, Act.RESTART),
    154: Xid("the driver says what this GPU needs to recover", Blame.EITHER, False, Act.OTHER),
    155: Xid("an NVLink was taken down by software (Blackwell), also on purpose", Blame.EITHER, False, Act.RESET),
    156: Xid("a faulty part of the GPU was taken out of use", Blame.HARDWARE, True, Act.RESET),
    157: Xid("a faulty part of the GPU could not be taken out of use: no spare is left", Blame.HARDWARE, False, Act.WATCH),
    158: Xid("the GPU did not answer in time, and is lost until a reset", Blame.HARDWARE, True, Act.RESET),
    159: Xid("an error of the link to the CPU (C2C) that is not in data", Blame.EITHER, True, Act.OTHER),
    160: Xid("a faulty memory channel was taken out of use (Blackwell)", Blame.HARDWARE, False, Act.WATCH),
    161: Xid("a faulty memory channel could not be taken out of use (Blackwell)", Blame.HARDWARE, False, Act.WATCH),
    162: Xid("power smoothing is on again", Blame.EITHER, False, Act.WATCH),
    163: Xid("power smoothing was switched off, by heat or a time-out", Blame.EITHER, False, Act.WATCH),
    164: Xid("the parts for power smoothing are nearly worn out", Blame.HARDWARE, False, Act.WATCH),
    165: Xid("the parts for power smoothing are worn out", Blame.HARDWARE, False, Act.WATCH),
    166: Xid("NVLink traffic came before encryption was set up (confidential computing)", Blame.DRIVER, True, Act.RESET),
    167: Xid("a request over PCIe was never answered", Blame.HARDWARE, True, Act.RESET),
    168: Xid("memory errors where the driver keeps its own data, with ECC off", Blame.HARDWARE, True, Act.RESET),
    169: Xid("an internal controller (SEC2) halted", Blame.EITHER, True, Act.RESET),
    171: Xid("an uncorrectable error in the GPU's DRAM; belongs to an Xid 48", Blame.HARDWARE, True, Act.RESET),
    172: Xid("an uncorrectable error in the GPU's SRAM; belongs to an Xid 48", Blame.HARDWARE, True, Act.RESET),
}  # fmt: skip
"""In own words, from NVIDIA's Xid catalog: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html."""

RECOVERY = 154
CLEANED_UP = 45
LOST = 79
NVLINK = frozenset({74, 136, 144, 145, 146, 147, 148, 149, 150, 155})
NVLINK5 = frozenset({144, 145, 146, 147, 148, 149, 150})
"""Their lines say `Fatal` or `Nonfatal`: most of the nonfatal ones need nothing."""
MEMORY = frozenset({48, 63, 64, 92, 94, 95, 140, 171, 172})

RECOVERIES: Mapping[str, Act | None] = {
    "None": None,
    "Drain P2P": Act.LATER,
    "Drain and Reset": Act.RESET,
    "GPU Reset Required": Act.RESET,
    "Node Reboot Required": Act.REBOOT,
    "OS Reboot": Act.REBOOT,
}
"""What Xid 154 may ask for: `GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)`."""

SXIDS: Mapping[int, str] = {
    10004: "the switch is too hot",
    11001: "an invalid command came in",
    11004: "an access that the switch's access list refuses",
    11007: "a double-bit error in an incoming header",
    11012: "single-bit errors in incoming headers, corrected",
    11013: "a double-bit error in an incoming header",
    12028: "a privileged access that was refused on its way out",
    19084: "a heartbeat of the link that did not come",
    20001: "packets that were sent again",
    20009: "errors at a high rate on a link, for a short time",
    20012: "checksum errors on a link",
    20034: "a link that went down (LTSSM fault up)",
    20035: "a link that went down (LTSSM fault down)",
    22003: "the link controller halted",
    22012: "a fatal interrupt of the link controller",
    22013: "an interrupt of the link controller",
    24007: "a request that was never answered",
    25010: "a link that could not be trained",
}
SXID_FAMILIES: Mapping[int, str] = {
    10: "the switch's connection to its host",
    11: "traffic coming into the switch",
    12: "traffic leaving the switch",
    19: "the transaction layer of a link",
    20: "the physical layer of a link",
    22: "the link controller",
    23: "the crossbar inside the switch",
    24: "the tracking of requests",
    25: "the state of a link",
    26: "the switch's own processor",
    27: "cables and optical modules",
}
"""Thousands of the number → part of the switch.

Source of both: ctrl_dev_nvswitch.h in https://github.com/NVIDIA/open-gpu-kernel-modules.
"""


def xid(number: int) -> Xid:
    """What this number means; an unknown one says so."""
    unknown = Xid("an error that this table does not list", Blame.EITHER, True, Act.RESET)
    return XIDS.get(number, unknown)


def sxid(number: int) -> str | None:
    """What this number of a switch means, or at least which part it comes from; None for an unknown family."""
    family = SXID_FAMILIES.get(number // 1000)
    return SXIDS.get(number) or (f"an error in {family}" if family else None)


def recovery(text: str) -> str | None:
    """The action that the line of an Xid 154 asks for now; None for a line that does not tell."""
    _, to, last = text.rpartition(" to ")
    _, bracket, action = last.partition("(")
    return action.partition(")")[0] if to and bracket else None
