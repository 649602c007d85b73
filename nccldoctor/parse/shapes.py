"""Remembers which shapes of lines say nothing, so that the next one like it costs a look-up."""

from collections.abc import Iterable
from enum import Enum

MOST_SHAPES = 1 << 14
LONGEST_SHAPE = 512

BLANK = bytes(ord("0") if byte in b"0123456789abcdef" else byte for byte in range(256))

"""`bytes.translate` with this gives a line's shape."""


def shape_of(raw: bytes) -> bytes:
    """The line with its digits and hexadecimal letters made equal."""
    return raw.translate(BLANK)


class Verdict(Enum):
    """What every line of a shape is: text that no pattern reads, or an NCCL record that is known noise.

    TIRED is for one line alone: what it says has been kept often enough.
    """

    IGNORED = 1
    NOISE = 2
    TIRED = 3


class Shapes:
    """Lines are of one shape when they differ only in digits and hexadecimal letters.

    `anchors` are those of the patterns over text: a shape that could hold one of them is never remembered as ignored.
    """

    def __init__(self, anchors: Iterable[str]) -> None:
        self._anchors = sorted({shape_of(anchor.encode()) for anchor in anchors})
        self._known: dict[bytes, tuple[Verdict, bytes]] = {}
        self._tired: set[int] = set()

    def known(self, shape: bytes, raw: bytes) -> Verdict | None:
        """What the line is, or None when it has to be read."""
        entry = self._known.get(shape)
        if entry is not None and entry[1] in raw:
            return entry[0]
        return Verdict.NOISE if hash(raw) in self._tired else None

    def tire(self, raw: bytes) -> None:
        """This very line, an NCCL record, was read often enough; from now on it is counted only."""
        if len(self._tired) >= MOST_SHAPES:
            self._tired.clear()
        self._tired.add(hash(raw))

    def learn(self, shape: bytes, told: tuple[Verdict, str]) -> None:
        """Remembers what the reading of a line of this shape told."""
        verdict, anchor = told
        if len(shape) > LONGEST_SHAPE:
            return
        if verdict is Verdict.IGNORED and any(known in shape for known in self._anchors):
            return
        if len(self._known) >= MOST_SHAPES:
            self._known.clear()
        self._known[shape] = verdict, anchor.encode()
