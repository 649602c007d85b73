"""All events, one subclass per message; grouped by who speaks."""

from nccldoctor.model.events import (
    fabric,
    gpus,
    machine,
    measured,
    nccl,
    platform,
    plugin,
    ras,
    recorder,
    torch,
    trouble,
    usage,
    watched,
)

__all__ = [
    "fabric",
    "gpus",
    "machine",
    "measured",
    "nccl",
    "platform",
    "plugin",
    "ras",
    "recorder",
    "torch",
    "trouble",
    "usage",
    "watched",
]
