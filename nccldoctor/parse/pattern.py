"""A log pattern: which message becomes which event, with a sample per wording."""

import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import Noise
from nccldoctor.model.source import Line, Speaker


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
        for name, text in match.groupdict().items():
            if text is not None:
                values[name] = converters[name](text)
        return self.event(line=line, speaker=speaker, **values)


def noise(anchor: str, **samples: str) -> Pattern:
    """A known message that says nothing a diagnosis needs."""
    return Pattern(Noise, anchor, re.escape(anchor), samples or {"all": anchor})


class Matcher:
    """Finds the first pattern, in the order given, whose anchor and regex match a message."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._by_anchor: dict[str, list[tuple[int, re.Pattern[str], Pattern]]] = {}
        for order, pattern in enumerate(patterns):
            entry = (order, re.compile(pattern.regex), pattern)
            self._by_anchor.setdefault(pattern.anchor, []).append(entry)

    @property
    def anchors(self) -> tuple[str, ...]:
        """All anchors: a message without one of them matches nothing."""
        return tuple(self._by_anchor)

    def match(self, message: str, line: Line, speaker: Speaker) -> Event | None:
        """The event that the message is, if a pattern knows it."""
        found = self.find(message)
        return found[0].build(found[1], line, speaker) if found else None

    def find(self, message: str) -> tuple[Pattern, re.Match[str]] | None:
        """The pattern that knows the message, and its match."""
        candidates = sorted(
            (
                entry
                for anchor, entries in self._by_anchor.items()
                if anchor in message
                for entry in entries
            ),
            key=lambda e: e[0],
        )
        for _, regex, pattern in candidates:
            match = regex.search(message)
            if match is not None:
                return pattern, match
        return None


def _truth(text: str) -> bool:
    return bool(text.strip())


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
