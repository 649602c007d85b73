"""PyTorch's flight recorder, pickle or JSON, of every schema from 2.2's bare list to 2.10, into one event."""

import gc
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from nccldoctor.model.digest import Coverage, Digest
from nccldoctor.model.events.recorder import RecorderDump, RecorderGroup
from nccldoctor.model.source import Line, Source, Speaker
from nccldoctor.parse import unpickle
from nccldoctor.parse.recorder_columns import BAD, Columns, text

LARGEST = 1 << 30

_RANKED = re.compile(r"rank[_\-.]?(\d+)", re.I)
_TRAILING = re.compile(r"(\d{1,18})(?:\.[A-Za-z]\w{0,60}){0,4}$")


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
    except BAD as error:
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
    columns = Columns()
    columns.read(dump.get("entries", []))
    library = dump.get("comm_lib_version") or dump.get("nccl_version")
    event = RecorderDump(
        line=Line(source.path, 0, ""),
        speaker=Speaker(rank=rank_of(source.path)),
        version=text(dump.get("version", "")),
        library_version=text(library) if library else None,
        groups=_groups(dump, columns.group_of_id),
        entries=columns.log(),
    )
    return event, columns.skipped


def _groups(
    dump: Mapping[str, Any], of_id: Mapping[str, tuple[str, str]]
) -> tuple[RecorderGroup, ...]:
    """Groups of `pg_config` and of the entries; Gloo's configuration has neither name nor, mostly, ranks."""
    configured = dump.get("pg_config")
    configured = configured if isinstance(configured, dict) else {}
    groups: dict[str, RecorderGroup] = {}
    numbers: dict[str, tuple[int, ...]] = {}
    for key, config in sorted(configured.items(), key=lambda item: text(item[0])):
        if isinstance(config, dict):
            name, description = text(config.get("name", key)), text(config.get("desc", ""))
            listed = text(config.get("ranks", ""))
            if listed not in numbers:
                numbers[listed] = tuple(int(n) for n in re.findall(r"\d+", listed))
            groups[name] = RecorderGroup(name=name, description=description, ranks=numbers[listed])
    nameless = groups.pop("", None)
    seen = sorted(set(of_id.values()))
    for name, description in seen:
        ranks = nameless.ranks if nameless is not None and len(seen) == 1 else ()
        groups.setdefault(name, RecorderGroup(name=name, description=description, ranks=ranks))
    _add_status(groups, dump.get("pg_status"), of_id)
    return tuple(groups[name] for name in sorted(groups))


def _add_status(
    groups: dict[str, RecorderGroup], status: Any, of_id: Mapping[str, tuple[str, str]]
) -> None:
    if not isinstance(status, dict):
        return
    for ident, counts in status.items():
        name = of_id.get(text(ident), ("", ""))[0]
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
