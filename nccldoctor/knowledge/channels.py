"""How many channels NCCL usually has, by what joins the GPUs of one host, and how many it can have at all."""

from dataclasses import dataclass

from nccldoctor.knowledge.environment import numbers

MOST = 64
"""Channels that NCCL 2.25 and later can have (MAXCHANNELS in device.h)."""
MOST_BEFORE_2_25 = 32

PER_SEARCHED = 2
"""Channels made of each ring that the topology search finds (so two over PCIe, shared memory or sockets); ncclTopoPostset in NCCL's src/graph/connect.cc.

Between hosts it makes twice as many again where Hopper or newer has less than 16 and rings faster than 45 GB/s.
"""


@dataclass(frozen=True, slots=True)
class Usual:
    """Channels of a communicator inside one host whose GPUs have NVLinks of that speed together, to a switch.

    `gbytes_per_second` is the range that NCCL counts on: 18 NVLinks of Hopper were 360 up to 2.18 and are 370.8 now.
    """

    gpus: str
    gbytes_per_second: tuple[float, float]
    channels: int
    source: str


USUAL = (
    Usual(
        "B200 or GB200",
        (640.0, 740.0),
        32,
        "https://github.com/NVIDIA/nccl/issues/1646",
    ),
    Usual("H100, H200 or H20", (355.0, 375.0), 24, "measured on 2 x H200, NCCL 2.18 to 2.32"),
    Usual("A100", (235.0, 245.0), 24, "https://github.com/NVIDIA/nccl-tests/issues/100"),
    Usual("H800 or A800", (155.0, 170.0), 16, "https://github.com/NVIDIA/nccl/issues/892"),
)
"""Not known: V100 (12 were seen on eight without a switch), B300, RTX, AMD's GPUs (24 on several hosts of MI300A,
https://github.com/ROCm/rccl/pull/1366), and groups across hosts, whose network cards decide."""


def usual(gbytes_per_second: float | None) -> Usual | None:
    """What GPUs with this NVLink speed usually have inside one host; None where that is not known."""
    if gbytes_per_second is None:
        return None
    return next(
        (u for u in USUAL if u.gbytes_per_second[0] <= gbytes_per_second <= u.gbytes_per_second[1]),
        None,
    )


def most(version: str | None) -> int:
    """The most channels that a version can have; an unknown version counts as a new one."""
    at = numbers(version)
    return MOST_BEFORE_2_25 if at and at < (2, 25) else MOST
