"""Flight-recorder dumps as tracks: per communicator and rank, the collectives by sequence number, in small arrays."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from nccldoctor.correlate.places import Places
from nccldoctor.model.calls import Call
from nccldoctor.model.digest import Digest
from nccldoctor.model.events.recorder import RecorderDump, RecorderEntry, RecorderGroup
from nccldoctor.model.events.recorder_log import RETIRED, RecorderLog, distinct, shape_at

Key = tuple[str, str, int | None, int | None, str | None]
"""What must agree between ranks: PyTorch's name, NCCL's word, elements, those of the other side, datatype."""

Column = tuple[int, int, "array[int]", "array[int]"]

_BOTH_SIDES = frozenset({"AllReduce", "AllGather", "ReduceScatter", "Broadcast"})
"""Operations whose output, or input, is as large on every rank; a gather's and a scatter's is not."""


@dataclass(slots=True)
class Track:
    """The collectives of one rank on one communicator: `ids[i]` is the kind of the call with sequence `first` + i.

    Kinds are indexes into `Kinds`; -1 stands where the ring buffer holds no such call. `at` leads to the entries;
    `blocks` to all entries of a coalesced block, whose calls share one sequence number.
    `completed` is None where the recorder cannot tell (Gloo, once a call has failed).
    """

    file: str
    entries: Sequence[RecorderEntry]
    backend: str = ""
    first: int = 1
    ids: "array[int]" = field(default_factory=lambda: array("i"))
    at: "array[int]" = field(default_factory=lambda: array("i"))
    blocks: dict[int, list[int]] = field(default_factory=dict)
    issued: int = 0
    completed: int | None = None

    def entry(self, sequence: int) -> RecorderEntry | None:
        """The recorded call with that sequence number, the last one of a coalesced block."""
        index = sequence - self.first
        if not 0 <= index < len(self.at) or self.at[index] < 0:
            return None
        return self.entries[self.at[index]]

    def calls_of(self, sequence: int) -> list[RecorderEntry]:
        """All entries with that sequence number: one, or those of a coalesced block."""
        if sequence in self.blocks:
            return [self.entries[position] for position in self.blocks[sequence]]
        entry = self.entry(sequence)
        return [] if entry is None else [entry]

    def last_entry(self) -> RecorderEntry | None:
        return self.entry(self.first + len(self.ids) - 1) if self.ids else None

    def recent(self, number: int) -> tuple[Call, ...]:
        return tuple(
            shape_at(self.entries, position).call for position in self.at[-number:] if position >= 0
        )


@dataclass(slots=True)
class Kinds:
    """Numbers for kinds of calls, the same for all ranks; and the columns of ranks that did the same, made once."""

    _numbers: dict[object, int] = field(default_factory=dict)
    columns: dict[object, "list[Column] | None"] = field(default_factory=dict)

    def of(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def tracks(places: Places, digests: Sequence[Digest]) -> dict[str, dict[int, Track]]:
    """Communicator → rank inside it → its track; of two dumps of one rank the longer one counts."""
    kinds = Kinds()
    found: dict[str, dict[int, Track]] = {}
    for dump in (e for d in digests for e in d.events if isinstance(e, RecorderDump)):
        for group, track in _split(dump, kinds).items():
            seat = places.seat_in_group(group, dump.speaker.rank)
            if seat is None:
                continue
            known = found.setdefault(seat[0], {}).get(seat[1])
            if known is None or (track.issued, len(track.ids)) > (known.issued, len(known.ids)):
                found[seat[0]][seat[1]] = track
    return found


def describe(entry: RecorderEntry) -> str:
    """The entry as a line of evidence."""
    sizes = ", ".join("x".join(map(str, size)) for size in entry.input_sizes)
    retired = ", retired" if entry.retired else ""
    return (
        f"#{entry.sequence} {entry.backend}:{entry.name} [{sizes}] {entry.call.datatype or ''} "
        f"{entry.state}{retired}"
    ).replace("  ", " ")


def key(entry: RecorderEntry) -> Key:
    """What two ranks must agree in."""
    call = entry.call
    return entry.name.lower(), call.op, call.count, other_side(entry), call.datatype


def other_side(entry: RecorderEntry) -> int | None:
    """The elements of the side that `call.count` does not count; None where ranks may differ in it."""
    if entry.call.op not in _BOTH_SIDES:
        return None
    sizes = entry.input_sizes if entry.call.op == "ReduceScatter" else entry.output_sizes
    return sum(prod(size) for size in sizes) if sizes else None


def _split(dump: RecorderDump, kinds: Kinds) -> dict[str, Track]:
    entries = dump.entries
    made = {
        g.name: Track(dump.line.file, entries, issued=max(g.enqueued or 0, 0)) for g in dump.groups
    }
    shapes = distinct(entries)
    if log := entries if isinstance(entries, RecorderLog) else None:
        numbers = zip(log.shape, log.sequence, strict=True)
    else:
        numbers = zip(range(len(entries)), (e.sequence for e in entries), strict=True)
    targets = [
        None if shape.p2p else (made.setdefault(shape.group, Track(dump.line.file, entries)), shape)
        for shape in shapes
    ]
    ids = [kinds.of(key(shape)) for shape in shapes]
    if log is not None and _fill(log, made, ids, kinds):
        numbers = zip((), (), strict=True)
    after_p2p = False
    for position, (index, sequence) in enumerate(numbers):
        target = targets[index]
        if target is None:
            after_p2p = True
            continue
        track, shape = target
        if not (after_p2p and shape.call.op == "Coalesced"):
            _append(track, sequence, ids[index], position, kinds)
        after_p2p = False
    for group in dump.groups:
        _finish(made[group.name], group)
    for track in made.values():
        if track.ids:
            track.issued = max(track.issued, track.first + len(track.ids) - 1)
    return made


def _fill(log: RecorderLog, tracks: Mapping[str, Track], ids: Sequence[int], kinds: Kinds) -> bool:
    """The usual dump at once: only collectives, numbered without a gap in each group. False where it is not so.

    Most ranks have made the same calls in the same order, in groups of other names.
    """
    if any(shape.p2p for shape in log.shapes):
        return False
    names = list(dict.fromkeys(shape.group for shape in log.shapes))
    owners = tuple(names.index(shape.group) for shape in log.shapes)
    same = owners, tuple(ids), log.shape.tobytes(), log.sequence.tobytes()
    if same not in kinds.columns:
        kinds.columns[same] = _columns(log, owners, ids)
    columns = kinds.columns[same]
    if columns is None:
        return False
    for owner, first, track_ids, at in columns:
        track = tracks[names[owner]]
        track.first, track.ids, track.at = first, track_ids, at
    return True


def _columns(log: RecorderLog, owners: Sequence[int], ids: Sequence[int]) -> "list[Column] | None":
    """(group, first sequence, kinds, positions) of each group; None where a number is missing or told twice."""
    owner = list(map(owners.__getitem__, log.shape))
    found = []
    for group in sorted(set(owners)):
        at = array("i", [position for position, own in enumerate(owner) if own == group])
        sequence = array("q", map(log.sequence.__getitem__, at))
        if sequence != array("q", range(sequence[0], sequence[0] + len(at))):
            return None
        found.append((group, sequence[0], array("i", [ids[log.shape[p]] for p in at]), at))
    return found


def _append(track: Track, sequence: int, kind: int, position: int, kinds: Kinds) -> None:
    ids, at = track.ids, track.at
    if not ids:
        track.first = sequence
    gap = sequence - track.first - len(ids)
    if gap == -1:  # a coalesced block: its calls share one sequence number
        ids[-1] = kinds.of((ids[-1], kind))
        track.blocks.setdefault(sequence, [at[-1]]).append(position)
        at[-1] = position
        return
    if gap < 0 or gap > 1 << 20:
        return
    if gap:
        ids.extend([-1] * gap)
        at.extend([-1] * gap)
    ids.append(kind)
    at.append(position)


def _finish(track: Track, group: RecorderGroup) -> None:
    last = track.last_entry()
    if last is None:
        track.completed = group.completed
        return
    track.backend = last.backend
    track.completed = group.completed
    if last.backend == "gloo" and last.retired:
        track.completed = None
    elif group.completed is None and isinstance(track.entries, RecorderLog):
        track.completed = _completed(track, track.entries)


def _completed(track: Track, log: RecorderLog) -> int | None:
    """The last sequence with state completed, for dumps without a status."""
    for index in range(len(track.at) - 1, -1, -1):
        position = track.at[index]
        if position >= 0 and log.state[position] & ~RETIRED == 2:
            return track.first + index
    return None
