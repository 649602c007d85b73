"""What NCCL's path types mean, and which number each had in which version: "distance 7" moved."""

from collections.abc import Mapping

from nccldoctor.knowledge.environment import numbers

MEANING: Mapping[str, str] = {
    "LOC": "the same device",
    "NVL": "NVLink, NVSwitch included",
    "NVB": "NVLink through one other GPU",
    "C2C": "the chip-to-chip link of CPU and GPU",
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "P2C": "PCIe to a CPU that has a chip-to-chip link",
    "PXN": "a NIC reached through another GPU",
    "PHB": "the CPU's PCIe host bridge",
    "SYS": "the link between CPUs",
    "NET": "the network",
    "DIS": "no path",
}

_TABLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("2.27.5", ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS")),
    ("2.27.3", ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "P2C", "PHB", "SYS", "NET", "DIS")),
    ("2.26", ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS")),
    ("2.21", ("LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS", "NET", "DIS")),
    ("2.12", ("LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS", "DIS")),
    ("2.8", ("LOC", "NVL", "NVB", "PIX", "PXB", "PHB", "SYS")),
    ("2.6", ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS", "NET")),
)  # fmt: skip
"""(first version, names by number), newest first. Source: NCCL graph/topo.h in each tag."""


def path_type(distance: int, version: str | None) -> str | None:
    """The name behind a distance number of that NCCL version; None where version or number are not known."""
    at = numbers(version)
    for since, names in _TABLES:
        if at and at >= numbers(since):
            return names[distance] if 0 <= distance < len(names) else None
    return None
