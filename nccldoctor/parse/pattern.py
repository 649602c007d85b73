"""A log pattern: which message becomes which event, with a sample per wording."""

import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any

from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import Noise
from nccldoctor.model.source import Line, Speaker
from nccldoctor.parse.shapes import LONGEST_SHAPE, MOST_SHAPES, shape_of


@dataclass(frozen=True)
class Pattern:
    """Turns a message into an event of class `event`.

    `anchor` is literal text that every wording holds: it is looked for first, the regex only then. The regex's named
    groups are the event's fields and are converted by the fields' types; `fixed` gives fields that the text does not.
    `samples` has one real message per wording, keyed by the versions that print it; tests match every one.
    """

    event: type[Event]
    anchor: str
    regex: str
    samples: Mapping[str, str]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def build(self, match: re.Match[str], line: Line, speaker: Speaker) -> Event:
        """The event that a match of this pattern's regex says."""
        values: dict[str, Any] = dict(self.fixed)
        converters = _converters(self.event)  # type: ignore[arg-type]
        required = _required(self.event)  # type: ignore[arg-type]
        for name, text in match.groupdict().items():
            if text is not None:
                values[name] = converters[name](text)
            elif name in required:
                values[name] = None
        return self.event(line=line, speaker=speaker, **values)


def noise(anchor: str, **samples: str) -> Pattern:
    """A known message that says nothing a diagnosis needs."""
    return Pattern(Noise, anchor, re.escape(anchor), samples or {"all": anchor})


LONGEST_MESSAGE = 4096
"""Characters of a message that patterns look at; no message that one knows is longer, and a regex stays quick."""

Entry = tuple[str, re.Pattern[str], Pattern]
"""Anchor, compiled regex and the pattern."""


class Matcher:
    """Finds the first pattern, in the order given, whose anchor and regex match a message."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._entries = [(p.anchor, re.compile(p.regex), p) for p in patterns]
        self._by_shape: dict[bytes, list[Entry]] = {}
        self._shapes = [
            (shape_of(p.anchor.encode()), e) for p, e in zip(patterns, self._entries, strict=True)
        ]

    @property
    def anchors(self) -> tuple[str, ...]:
        """All anchors: a message without one of them matches nothing."""
        return tuple(anchor for anchor, _, _ in self._entries)

    def match(self, message: str, line: Line, speaker: Speaker) -> Event | None:
        """The event that the message is, if a pattern knows it."""
        found = self.find(message)
        return found[0].build(found[1], line, speaker) if found else None

    def find(self, message: str, shape: bytes = b"") -> tuple[Pattern, re.Match[str]] | None:
        """The pattern that knows the message, and its match; the shape of its line, if given, makes this fast."""
        message = message[:LONGEST_MESSAGE]
        for anchor, regex, pattern in self._candidates(shape) if shape else self._entries:
            if anchor in message and (match := regex.search(message)) is not None:
                return pattern, match
        return None

    def _candidates(self, shape: bytes) -> list["Entry"]:
        """The patterns whose anchor can be in a line of this shape."""
        known = self._by_shape.get(shape)
        if known is None:
            known = [entry for anchor, entry in self._shapes if anchor in shape]
            if len(self._by_shape) >= MOST_SHAPES:
                self._by_shape.clear()
            if len(shape) <= LONGEST_SHAPE:
                self._by_shape[shape] = known
        return known


def _truth(text: str) -> bool:
    return bool(text.strip())


@cache
def _required(event: type[Event]) -> frozenset[str]:
    """The fields that have no default: a wording that leaves one out says None."""
    return frozenset(
        f.name for f in fields(event) if f.default is MISSING and f.default_factory is MISSING
    )


@cache
def _converters(event: type[Event]) -> Mapping[str, Callable[[str], Any]]:
    hints = typing.get_type_hints(event)
    return {f.name: _converter(hints[f.name]) for f in fields(event)}


def _converter(hint: Any) -> Callable[[str], Any]:
    if isinstance(hint, types.UnionType):
        hint = next(a for a in typing.get_args(hint) if a is not type(None))
    if hint is bool:
        return _truth
    return hint if hint in (int, float, str) else str
