"""All events, one subclass per message; grouped by who speaks."""

from nccldoctor.model.events import (
    fabric,
    machine,
    nccl,
    platform,
    plugin,
    state,
    torch,
    trouble,
    usage,
)

__all__ = ["fabric", "machine", "nccl", "platform", "plugin", "state", "torch", "trouble", "usage"]
