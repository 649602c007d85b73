"""A flight recorder's entries, as PyTorch's dicts of any schema, into columns."""

from array import array
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from types import NoneType
from typing import Any

from nccldoctor.model.events.recorder import RecorderEntry
from nccldoctor.model.events.recorder_log import RETIRED, STATES, RecorderLog
from nccldoctor.model.events.torch import StackFrame
from nccldoctor.parse.recorder_calls import call, split_name

MOST_FRAMES = 64
MOST_PARTS = 1 << 26
"""So many sizes, types and frames may a dump's entries have together: a pickle can name a long list again and again."""

_SIZES = "input_sizes", "output_sizes"
_LISTS = *_SIZES, "input_dtypes", "output_dtypes", "frames"
_changing = itemgetter(
    "collective_seq_id",
    "p2p_seq_id",
    "state",
    "retired",
    "time_created_ns",
    "time_discovered_completed_ns",
)
_fixed = itemgetter("process_group", "profiling_name", "timeout_ms", "is_p2p", *_LISTS)
_frame = itemgetter("name", "filename", "line")
_number = itemgetter("record_id")
_STATE_CODES: Mapping[tuple[str, bool], int] = {
    (name, retired): index + RETIRED * retired
    for index, name in enumerate(STATES)
    for retired in (False, True)
}
BAD = (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError, IndexError)
"""What an entry raises that is not as expected."""


@dataclass
class Columns:
    """Entries on their way into columns; `group_of_id` tells the group behind each rank-local number."""

    shapes: dict[RecorderEntry, int] = field(default_factory=dict)
    shape: "array[int]" = field(default_factory=lambda: array("I"))
    sequence: "array[int]" = field(default_factory=lambda: array("q"))
    p2p_sequence: "array[int]" = field(default_factory=lambda: array("q"))
    state: bytearray = field(default_factory=bytearray)
    created: "array[int]" = field(default_factory=lambda: array("q"))
    completed: "array[int]" = field(default_factory=lambda: array("q"))
    group_of_id: dict[str, tuple[str, str]] = field(default_factory=dict)
    skipped: int = 0
    parts: int = 0

    def read(self, entries: Sequence[Any]) -> None:
        found = list(entries)
        if set(map(type, entries)) != {dict}:
            found = [entry for entry in entries if isinstance(entry, dict)]
        self.skipped = len(entries) - len(found)
        for entry in found:
            entry.setdefault("frames", [])  # as in JSON, which has none
        if _out_of_order(found):
            found.sort(key=_number)
        try:
            self._append_all(found)
        except BAD:
            for entry in found:
                try:
                    self._append(entry)
                except BAD:
                    self.skipped += 1

    def log(self) -> RecorderLog:
        return RecorderLog(
            tuple(self.shapes),
            self.shape,
            self.sequence,
            self.p2p_sequence,
            bytes(self.state),
            self.created,
            self.completed,
        )

    def _append_all(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """The same as one by one, where every entry has all fields of the present schema and none is odd."""
        if not entries:
            return
        columns = list(zip(*map(_changing, entries), strict=True))
        sequence, p2p_sequence = array("q", columns[0]), array("q", columns[1])
        state = bytes(map(_STATE_CODES.__getitem__, zip(columns[2], columns[3], strict=True)))
        created = array("q", columns[4])
        completed = array("q", [time or 0 for time in columns[5]])
        self.shape = self._known_shapes(entries)
        self.sequence, self.p2p_sequence = sequence, p2p_sequence
        self.state, self.created, self.completed = bytearray(state), created, completed

    def _known_shapes(self, entries: Sequence[Mapping[str, Any]]) -> "array[int]":
        """The numbers of the entries' shapes, each of which is made once."""
        columns = list(zip(*map(_fixed, entries), strict=True))
        lists = columns[-len(_LISTS) :]
        self._count(chain.from_iterable(lists))
        self._count(chain.from_iterable(chain.from_iterable(lists[: len(_SIZES)])))
        numbers = []
        known: dict[tuple[Any, ...], int] = {}
        stacks: dict[tuple[Any, ...], int] = {}
        for entry, group, *rest, inputs, outputs, takes, gives, frames in zip(
            entries, *columns, strict=True
        ):
            same = tuple(map(id, frames))
            stack = stacks.get(same)
            if stack is None:  # PyTorch writes the frames of a line once, other picklers each time
                told = tuple(map(_frame, frames))
                stack = stacks[same] = stacks.setdefault(told, len(stacks))
            sizes = (*map(tuple, inputs), None, *map(tuple, outputs))
            key = (stack, *group, *rest, *sizes, *takes, None, *gives)
            number = known.get(key)
            if number is None:
                number = known[key] = self._number(entry)
            numbers.append(number)
        return array("I", numbers)

    def _append(self, entry: Mapping[str, Any]) -> None:
        get = entry.get
        self._count(get(name) or () for name in _LISTS)
        self._count(size for name in _SIZES for size in get(name) or ())
        sequence = get("collective_seq_id")
        values = (
            self._number(entry),
            int(get("seq_id", 0) if sequence is None else sequence),
            int(get("p2p_seq_id") or 0),
            _STATE_CODES.get((text(get("state", "scheduled")), bool(get("retired", False))), 0),
            int(get("time_created_ns") or 1000 * int(get("time_created_us") or 0)),
            int(get("time_discovered_completed_ns") or 0),
        )
        for column, value in zip(self._all_columns(), values, strict=True):
            column.append(value)

    def _all_columns(self) -> "tuple[array[int] | bytearray, ...]":
        numbers = self.shape, self.sequence, self.p2p_sequence
        return *numbers, self.state, self.created, self.completed

    def _count(self, lists: Iterable[Sized]) -> None:
        """Raises ValueError once the parts are more than any recorder writes, before anything copies them."""
        if self.parts <= MOST_PARTS:
            self.parts += sum(map(len, lists))
        if self.parts > MOST_PARTS:
            raise ValueError("it names more sizes and frames than a recorder writes")

    def _number(self, entry: Mapping[str, Any]) -> int:
        shape = _shape(entry)
        name, description = _group(entry)
        self.group_of_id.setdefault(text(entry.get("pg_id", name)), (name, description))
        return self.shapes.setdefault(shape, len(self.shapes))


def _out_of_order(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Are the entries numbered, and not in order, as a ring buffer may leave them?"""
    try:
        numbers = array("q", map(_number, entries))
    except BAD:
        return False
    return list(numbers) != sorted(numbers)


def _shape(entry: Mapping[str, Any]) -> RecorderEntry:
    backend, name = split_name(text(entry["profiling_name"]))
    inputs, outputs = _sizes(entry.get("input_sizes")), _sizes(entry.get("output_sizes"))
    dtypes = tuple(text(d) for d in entry.get("input_dtypes") or entry.get("output_dtypes") or ())
    timeout = entry.get("timeout_ms")
    p2p = bool(entry.get("is_p2p", name.startswith(("send", "recv"))))
    return RecorderEntry(
        group=_group(entry)[0],
        sequence=0,
        call=call(name, inputs, outputs, dtypes),
        state=STATES[0],
        backend=backend,
        timeout_ms=int(timeout) if timeout else None,
        frames=_frames(entry.get("frames")),
        input_sizes=inputs,
        output_sizes=outputs,
        name=name,
        p2p=p2p,
    )


def text(value: Any) -> str:
    """A text, or a number as one. Raises TypeError for lists and the like, whose text may have no end."""
    if isinstance(value, (str, int, float, NoneType)):
        return str(value)
    raise TypeError(f"{type(value).__name__} where a text belongs")


def _group(entry: Mapping[str, Any]) -> tuple[str, str]:
    """(name, description); before 2.4 a group has only its rank-local number."""
    group = entry.get("process_group")
    if isinstance(group, (list, tuple)) and len(group) == 2:
        return text(group[0]), text(group[1])
    return text(entry.get("pg_id", "")), ""


def _sizes(sizes: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(n) for n in size) for size in sizes or ())


def _frames(frames: Any) -> tuple[StackFrame, ...]:
    if not isinstance(frames, list):
        return ()
    return tuple(
        StackFrame(
            function=text(f.get("name", "")),
            file=text(f.get("filename", "")),
            line=int(f.get("line", 0)),
        )
        for f in frames[:MOST_FRAMES]
        if isinstance(f, dict)
    )
