"""The base of all events: what one message says, with its line and its speaker; no judgement."""

from dataclasses import dataclass, field

from nccldoctor.model.source import NOBODY, Line, Speaker


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One message. Subclasses add typed fields named as in the message; None means "not said"."""

    line: Line
    speaker: Speaker = field(default=NOBODY)
