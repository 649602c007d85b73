"""A flight recorder's entries in columns: a thousand ranks with two thousand entries each fit into memory."""

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import overload

from nccldoctor.model.events.recorder import RecorderEntry

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


def distinct(entries: Sequence[RecorderEntry]) -> Sequence[RecorderEntry]:
    """The distinct entries, without what changes from call to call."""
    return entries.shapes if isinstance(entries, RecorderLog) else entries


def shapes(entries: Sequence[RecorderEntry]) -> list[tuple[RecorderEntry, int]]:
    """The distinct entries, and how often each occurs."""
    if not isinstance(entries, RecorderLog):
        return [(entry, 1) for entry in entries]
    counts = Counter(entries.shape)
    return [(shape, counts[index]) for index, shape in enumerate(entries.shapes)]


def shape_at(entries: Sequence[RecorderEntry], position: int) -> RecorderEntry:
    """The entry at that position, which may lack what changes from call to call."""
    if isinstance(entries, RecorderLog):
        return entries.shapes[entries.shape[position]]
    return entries[position]


def first_created(entries: Sequence[RecorderEntry]) -> float | None:
    """Seconds since 1970 of the oldest entry that tells when it was made."""
    if not isinstance(entries, RecorderLog):
        return next((e.created for e in entries if e.created is not None), None)
    found = next((created for created in entries.created_ns if created), 0)
    return found / 1e9 if found else None


def durations(entries: Sequence[RecorderEntry], least: float) -> dict[tuple[str, str], list[float]]:
    """(group, operation) → seconds from being made to having ended, oldest first, where the first took `least`."""
    found: dict[tuple[str, str], list[float]] = {}
    if not isinstance(entries, RecorderLog):
        for e in entries:
            if e.created and e.completed:
                found.setdefault((e.group, e.call.op), []).append(e.completed - e.created)
        return {what: times for what, times in found.items() if times[0] >= least}
    names = [(shape.group, shape.call.op) for shape in entries.shapes]
    firsts: dict[tuple[str, str], int] = {}
    for index, what in enumerate(names):
        position = entries.shape.index(index)
        firsts[what] = min(position, firsts.get(what, position))
    slow = {what for what, at in firsts.items() if _seconds(entries, at) >= least}
    if slow:
        for position, index in enumerate(entries.shape):
            if names[index] in slow and entries.completed_ns[position]:
                found.setdefault(names[index], []).append(_seconds(entries, position))
    return found


def _seconds(log: RecorderLog, position: int) -> float:
    created, completed = log.created_ns[position], log.completed_ns[position]
    return (completed - created) / 1e9 if created and completed else 0.0
