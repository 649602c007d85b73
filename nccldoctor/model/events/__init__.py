"""All events, one subclass per message; grouped by who speaks."""

from nccldoctor.model.events import nccl, state, torch, trouble

__all__ = ["nccl", "state", "torch", "trouble"]
