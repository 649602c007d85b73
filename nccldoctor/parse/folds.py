"""Puts together messages that a terminal or a web page broke into several lines."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nccldoctor.model.event import Event
from nccldoctor.model.source import Line, Speaker

MOST_LINES = 8
LONGEST = 4096
_BEGINNINGS = (
    "Watchdog caught",
    "watchdog thread terminated",
    "Detected mismatch between collectives",
    "Got completion from peer",
    "message truncated",
    "Last error:",
    "NCCL error in: ",
)
"""Words of long messages; a line that holds one and matches nothing may be only their beginning."""

Match = Callable[[str, Line, Speaker], Event | None]


@dataclass(slots=True)
class _Held:
    texts: tuple[str, ...]
    line: Line
    speaker: Speaker
    lines: int = 1


class Folds:
    """Holds one beginning at a time: its continuation is on the very next lines."""

    def __init__(self) -> None:
        self._held: _Held | None = None

    @property
    def open(self) -> bool:
        """Is a beginning held, so that the next line counts whatever it says?"""
        return self._held is not None

    def drop(self) -> None:
        """The next line is a record of its own: the beginning was all there is."""
        self._held = None

    def begin(self, text: str, line: Line, speaker: Speaker) -> None:
        """Holds a line that matched nothing, if it looks like a beginning."""
        if any(words in text for words in _BEGINNINGS):
            self._held = _Held((text,), line, speaker)

    def go_on(self, text: str, match: Match) -> Event | None:
        """The event of the held lines and this one together; they are held on while they match nothing."""
        held = self._held
        if held is None:
            return None
        texts = tuple(_joined(held.texts, text))
        for joined in texts:
            if event := match(joined, held.line, held.speaker):
                self._held = None
                return event
        held.texts, held.lines = texts, held.lines + 1
        if held.lines >= MOST_LINES or len(texts[0]) > LONGEST or not text.strip():
            self._held = None
        return None


def _joined(texts: tuple[str, ...], text: str) -> Iterator[str]:
    """A terminal breaks within words, a web page at blanks: both ways of putting them together."""
    yield texts[0] + text
    yield f"{texts[-1].rstrip()} {text.lstrip()}"
