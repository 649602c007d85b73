"""PyTorch's flight recorder, pickle or JSON, of every schema from 2.2's bare list to 2.10, into one event."""

import gc
import json
import marshal
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import repeat
from operator import itemgetter
from typing import Any

from nccldoctor.model.digest import Coverage, Digest
from nccldoctor.model.events.recorded import RETIRED, STATES, RecorderLog
from nccldoctor.model.events.state import RecorderDump, RecorderEntry, RecorderGroup
from nccldoctor.model.events.torch import StackFrame
from nccldoctor.model.source import Line, Source, Speaker
from nccldoctor.parse import unpickle
from nccldoctor.parse.recorder_calls import call, split_name

LARGEST = 1 << 30
MOST_FRAMES = 64

_RANKED = re.compile(r"rank[_\-.]?(\d+)", re.I)
_TRAILING = re.compile(r"(\d+)(?:\.[A-Za-z]\w*)*$")
_SHAPE = itemgetter(
    "process_group",
    "profiling_name",
    "input_sizes",
    "output_sizes",
    "input_dtypes",
    "output_dtypes",
    "timeout_ms",
    "is_p2p",
    "frames",
)
_CHANGING = itemgetter(
    "collective_seq_id",
    "p2p_seq_id",
    "state",
    "retired",
    "time_created_ns",
    "time_discovered_completed_ns",
)
_NUMBER = itemgetter("record_id")
_VERSION = repeat(2)
"""Of marshal's format: the later ones write equal values differently."""
_STATE_CODES: Mapping[tuple[str, bool], int] = {
    (name, retired): index + RETIRED * retired
    for index, name in enumerate(STATES)
    for retired in (False, True)
}
_BAD = (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError, IndexError)


def read(source: Source, data: bytes) -> Digest:
    """The digest of one dump; a dump that cannot be read gives a note on the source and no event."""
    with _without_collector():
        return _read(source, data)


@contextmanager
def _without_collector() -> Iterator[None]:
    """A dump is hundred thousands of young lists, none of which can be garbage while it is read."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _read(source: Source, data: bytes) -> Digest:
    try:
        dump, note = _load(data)
        event, skipped = _dump(source, dump)
    except unpickle.Refused as refused:
        note = f"refused: the pickle is not plain data, {refused}"
        return Digest(replace(source, note=note))
    except _BAD as error:
        reason = str(error)[:200] or type(error).__name__
        return Digest(replace(source, note=f"not a readable flight-recorder dump: {reason}"))
    if skipped:
        note = f"{note}; " if note else ""
        note += f"{skipped} entries could not be read"
    if not event.entries:
        note = f"{note}; " if note else ""
        note += "the recorder was off or has recorded nothing: no entry in the dump"
    return Digest(replace(source, note=note), (event,), coverage=Coverage())


def rank_of(path: str) -> int | None:
    """The rank in a dump's file name, the only place where PyTorch writes it: `…rank_7`, `rank7.json`, `…_7`."""
    name = re.split(r"[/\\!]", path)[-1]
    ranked = _RANKED.findall(name)
    if ranked:
        return int(ranked[-1])
    trailing = _TRAILING.search(name)
    return int(trailing[1]) if trailing else None


def _load(data: bytes) -> tuple[Any, str]:
    if len(data) > LARGEST:
        raise ValueError(f"{len(data):,} bytes are more than a recorder writes")
    if data[:64].lstrip()[:1] in (b"{", b"["):
        return _load_json(data)
    loaded, cut = unpickle.loads(data)
    return loaded, "cut short: read as far as it goes" if cut else ""


def _load_json(data: bytes) -> tuple[Any, str]:
    text = data.decode("utf-8", "replace")
    try:
        return json.loads(text), ""
    except ValueError:
        entries = list(_complete_objects(text))
        if not entries:
            raise ValueError("neither JSON nor a part of it") from None
        return {"version": "", "entries": entries}, "cut short: only whole entries were read"


def _complete_objects(text: str) -> Iterable[Any]:
    """The entries of a JSON dump that ends in the middle."""
    start = text.find('"entries"')
    position = text.find("{", start)
    decoder = json.JSONDecoder()
    while start >= 0 and position >= 0:
        try:
            entry, end = decoder.raw_decode(text, position)
        except ValueError:
            return
        yield entry
        position = text.find("{", end)


def _dump(source: Source, dump: Any) -> tuple[RecorderDump, int]:
    if isinstance(dump, list) and (not dump or any(isinstance(e, dict) for e in dump)):
        dump = {"version": "", "entries": dump}
    if not isinstance(dump, dict) or not isinstance(dump.get("entries", []), list):
        raise ValueError("it has no list of entries")
    if "entries" not in dump and "version" not in dump and "pg_config" not in dump:
        raise ValueError("it has neither entries nor a version")
    columns = _Columns()
    columns.read(dump.get("entries", []))
    library = dump.get("comm_lib_version") or dump.get("nccl_version")
    event = RecorderDump(
        line=Line(source.path, 0, ""),
        speaker=Speaker(rank=rank_of(source.path)),
        version=str(dump.get("version", "")),
        library_version=str(library) if library else None,
        groups=_groups(dump, columns.group_of_id),
        entries=columns.log(),
    )
    return event, columns.skipped


@dataclass
class _Columns:
    """Entries on their way into columns; `group_of_id` tells the group behind each rank-local number."""

    shapes: list[RecorderEntry] = field(default_factory=list)
    index: dict[bytes, int] = field(default_factory=dict)
    shape: "array[int]" = field(default_factory=lambda: array("I"))
    sequence: "array[int]" = field(default_factory=lambda: array("q"))
    p2p_sequence: "array[int]" = field(default_factory=lambda: array("q"))
    state: bytearray = field(default_factory=bytearray)
    created: "array[int]" = field(default_factory=lambda: array("q"))
    completed: "array[int]" = field(default_factory=lambda: array("q"))
    group_of_id: dict[str, tuple[str, str]] = field(default_factory=dict)
    skipped: int = 0

    def read(self, entries: Sequence[Any]) -> None:
        found = list(entries)
        if set(map(type, entries)) != {dict}:
            found = [entry for entry in entries if isinstance(entry, dict)]
        self.skipped = len(entries) - len(found)
        if _out_of_order(found):
            found.sort(key=lambda e: int(e["record_id"]))
        try:
            self._append_all(found)
        except _BAD:
            for entry in found:
                try:
                    self._append(entry)
                except _BAD:
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
        columns = list(zip(*map(_CHANGING, entries), strict=True))
        sequence, p2p_sequence = array("q", columns[0]), array("q", columns[1])
        state = bytes(map(_STATE_CODES.__getitem__, zip(columns[2], columns[3], strict=True)))
        created = array("q", columns[4])
        completed = array("q", [time or 0 for time in columns[5]])
        shape = array("I")
        known = self.index
        for key, entry in zip(
            map(marshal.dumps, map(_SHAPE, entries), _VERSION), entries, strict=False
        ):
            index = known.get(key)
            shape.append(self._new_shape(key, entry) if index is None else index)
        self.shape, self.sequence, self.p2p_sequence = shape, sequence, p2p_sequence
        self.state, self.created, self.completed = bytearray(state), created, completed

    def _append(self, entry: Mapping[str, Any]) -> None:
        key = marshal.dumps((sorted(_fixed(entry).items()), entry.get("frames")), 2)
        index = self.index.get(key)
        if index is None:
            index = self._new_shape(key, entry)
        get = entry.get
        sequence = get("collective_seq_id")
        values = (
            int(get("seq_id", 0) if sequence is None else sequence),
            int(get("p2p_seq_id") or 0),
            _STATE_CODES.get((get("state", "scheduled"), bool(get("retired", False))), 0),
            int(get("time_created_ns") or 1000 * int(get("time_created_us") or 0)),
            int(get("time_discovered_completed_ns") or 0),
        )
        for column, value in zip(
            (self.sequence, self.p2p_sequence, self.state, self.created, self.completed),
            values,
            strict=True,
        ):
            column.append(value)
        self.shape.append(index)

    def _new_shape(self, key: bytes, entry: Mapping[str, Any]) -> int:
        shape = _shape(entry)
        name, description = _group(entry)
        self.group_of_id.setdefault(str(entry.get("pg_id", name)), (name, description))
        index = self.index[key] = len(self.shapes)
        self.shapes.append(shape)
        return index


def _out_of_order(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Are the entries numbered, and not in order, as a ring buffer may leave them?"""
    try:
        numbers = list(map(_NUMBER, entries))
        return bool(numbers != sorted(numbers))
    except _BAD:
        return False


def _fixed(entry: Mapping[str, Any]) -> dict[str, Any]:
    changing = (
        "record_id",
        "op_id",
        "seq_id",
        "collective_seq_id",
        "p2p_seq_id",
        "state",
        "frames",
    )
    return {
        str(k): v
        for k, v in entry.items()
        if k not in changing and k not in ("retired", "duration_ms") and "time_" not in str(k)
    }


def _shape(entry: Mapping[str, Any]) -> RecorderEntry:
    backend, name = split_name(str(entry["profiling_name"]))
    inputs, outputs = _sizes(entry.get("input_sizes")), _sizes(entry.get("output_sizes"))
    dtypes = tuple(str(d) for d in entry.get("input_dtypes") or entry.get("output_dtypes") or ())
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


def _group(entry: Mapping[str, Any]) -> tuple[str, str]:
    """(name, description); before 2.4 a group has only its rank-local number."""
    group = entry.get("process_group")
    if isinstance(group, (list, tuple)) and len(group) == 2:
        return str(group[0]), str(group[1])
    return str(entry.get("pg_id", "")), ""


def _sizes(sizes: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(n) for n in size) for size in sizes or ())


def _frames(frames: Any) -> tuple[StackFrame, ...]:
    if not isinstance(frames, list):
        return ()
    return tuple(
        StackFrame(
            function=str(f.get("name", "")),
            file=str(f.get("filename", "")),
            line=int(f.get("line", 0)),
        )
        for f in frames[:MOST_FRAMES]
        if isinstance(f, dict)
    )


def _groups(
    dump: Mapping[str, Any], of_id: Mapping[str, tuple[str, str]]
) -> tuple[RecorderGroup, ...]:
    """Groups of `pg_config` and of the entries; Gloo's configuration has neither name nor, mostly, ranks."""
    configured = dump.get("pg_config")
    configured = configured if isinstance(configured, dict) else {}
    groups: dict[str, RecorderGroup] = {}
    for key, config in sorted(configured.items(), key=lambda item: str(item[0])):
        if isinstance(config, dict):
            ranks = tuple(int(n) for n in re.findall(r"\d+", str(config.get("ranks", ""))))
            name, description = str(config.get("name", key)), str(config.get("desc", ""))
            groups[name] = RecorderGroup(name=name, description=description, ranks=ranks)
    nameless = groups.pop("", None)
    for name, description in sorted(set(of_id.values())):
        alone = nameless is not None and len(set(of_id.values())) == 1
        ranks = nameless.ranks if nameless is not None and alone else ()
        groups.setdefault(name, RecorderGroup(name=name, description=description, ranks=ranks))
    _add_status(groups, dump.get("pg_status"), of_id)
    return tuple(groups[name] for name in sorted(groups))


def _add_status(
    groups: dict[str, RecorderGroup], status: Any, of_id: Mapping[str, tuple[str, str]]
) -> None:
    if not isinstance(status, dict):
        return
    for ident, counts in status.items():
        name = of_id.get(str(ident), ("", ""))[0]
        if not name and len(groups) == 1 and len(status) == 1:
            name = next(iter(groups))
        if name in groups and isinstance(counts, dict):
            groups[name] = replace(
                groups[name],
                enqueued=_count(counts.get("last_enqueued_collective")),
                started=_count(counts.get("last_started_collective")),
                completed=_count(counts.get("last_completed_collective")),
            )


def _count(value: Any) -> int | None:
    """-1 is PyTorch's "nothing yet"; the strings are JSON's."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return None
