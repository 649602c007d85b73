"""Remembers which shapes of lines say nothing, so that the next one like it costs a look-up."""

from collections.abc import Iterable
from enum import Enum

MOST_SHAPES = 1 << 14
LONGEST = 512

BLANK = bytes(ord("0") if byte in b"0123456789abcdef" else byte for byte in range(256))

"""`bytes.translate` with this gives a line's shape."""


class Verdict(Enum):
    """What every line of a shape is: text that no pattern reads, or an NCCL record that is known noise."""

    IGNORED = 1
    NOISE = 2


class Shapes:
    """Lines are of one shape when they differ only in digits and hexadecimal letters.

    `anchors` are those of the patterns over text: a shape that could hold one of them is never remembered as ignored.
    """

    def __init__(self, anchors: Iterable[str]) -> None:
        self._anchors = sorted({anchor.encode().translate(BLANK) for anchor in anchors})
        self._known: dict[bytes, tuple[Verdict, bytes]] = {}

    def known(self, shape: bytes, raw: bytes) -> Verdict | None:
        """What the line is, or None when it has to be read."""
        entry = self._known.get(shape)
        if entry is None or entry[1] not in raw:
            return None
        return entry[0]

    def learn(self, shape: bytes, told: tuple[Verdict, str]) -> None:
        """Remembers what the reading of a line of this shape told."""
        verdict, anchor = told
        if len(shape) > LONGEST:
            return
        if verdict is Verdict.IGNORED and any(known in shape for known in self._anchors):
            return
        if len(self._known) >= MOST_SHAPES:
            self._known.clear()
        self._known[shape] = verdict, anchor.encode()
