"""All events, one subclass per message; grouped by who speaks."""

from nccldoctor.model.events import fabric, machine, nccl, state, torch, trouble

__all__ = ["fabric", "machine", "nccl", "state", "torch", "trouble"]
