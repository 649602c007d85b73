"""A flight recorder's entries in columns: a thousand ranks with two thousand entries each fit into memory."""

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import overload

from nccldoctor.model.events.state import RecorderEntry

STATES = ("scheduled", "started", "completed")
RETIRED = 4
"""Added to a state's index in `RecorderLog.state` where the watchdog has let go of the entry."""


@dataclass(frozen=True, slots=True, eq=False)
class RecorderLog(Sequence[RecorderEntry]):
    """Entries, oldest first, as columns of equal length.

    `shapes` are the distinct entries without what changes from call to call; `shape` indexes them.
    `sequence` and `p2p_sequence` as recorded; `state` is an index into STATES, plus RETIRED.
    `created_ns` and `completed_ns` are nanoseconds since 1970, 0 where not told.
    """

    shapes: tuple[RecorderEntry, ...] = ()
    shape: "array[int]" = field(default_factory=lambda: array("I"))
    sequence: "array[int]" = field(default_factory=lambda: array("q"))
    p2p_sequence: "array[int]" = field(default_factory=lambda: array("q"))
    state: bytes = b""
    created_ns: "array[int]" = field(default_factory=lambda: array("q"))
    completed_ns: "array[int]" = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.shape)

    @overload
    def __getitem__(self, index: int) -> RecorderEntry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RecorderEntry]: ...
    def __getitem__(self, index: int | slice) -> RecorderEntry | Sequence[RecorderEntry]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        state = self.state[index]
        return replace(
            self.shapes[self.shape[index]],
            sequence=self.sequence[index],
            p2p_sequence=self.p2p_sequence[index],
            state=STATES[state & 3],
            retired=bool(state & RETIRED),
            created=self.created_ns[index] / 1e9 or None,
            completed=self.completed_ns[index] / 1e9 or None,
        )


def shapes(entries: Sequence[RecorderEntry]) -> list[tuple[RecorderEntry, int]]:
    """The distinct entries, without what changes from call to call, and how often each occurs."""
    if not isinstance(entries, RecorderLog):
        return [(entry, 1) for entry in entries]
    counts = Counter(entries.shape)
    return [(shape, counts[index]) for index, shape in enumerate(entries.shapes)]
