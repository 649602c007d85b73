"""Sources into digests: lines to typed events, collective lines to call tables. Knows one file at a time."""

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import replace

from nccldoctor.evidence.kinds import HEAD, is_nccldoctors_own_report, kind_of
from nccldoctor.evidence.opening import Input, Stream, open_input
from nccldoctor.model.calls import Call, CallTable
from nccldoctor.model.digest import Digest
from nccldoctor.model.source import Kind, Source

WHOLE_LIMIT = 1 << 30
"""A file that must be read whole may have this many bytes."""

_WHOLE = {
    Kind.RECORDER: "recorder",
    Kind.RAS: "ras",
    Kind.TOPOLOGY: "xml",
    Kind.SMI: "smi",
    Kind.INSPECTOR: "inspector",
    Kind.SNAPSHOT: "snapshot",
}


def digest_input(item: Input) -> Digest:
    """The digest of one input. What cannot be read becomes a source with one sentence in its note, never an error."""
    if item.trouble:
        return _unreadable(item, item.trouble)
    try:
        with open_input(item) as stream:
            digest = _digest(item, stream)
            note = digest.source.note or stream.note
            return replace(digest, source=replace(digest.source, note=note))
    except (OSError, ValueError, EOFError) as error:
        return _unreadable(item, getattr(error, "strerror", None) or str(error))


def reread(table: CallTable, first: int, count: int) -> tuple[Call, ...]:
    """Calls of a table, from the ordinal `first` (1 is the first call); fewer where the table ends."""
    return table.tail[first - 1 : first - 1 + count]


def _unreadable(item: Input, why: str) -> Digest:
    return Digest(Source(item.path, Kind.UNREADABLE, item.size or 0, note=why))


def _digest(item: Input, stream: Stream) -> Digest:
    head = stream.peek(HEAD)[:HEAD]
    kind = kind_of(head)
    source = Source(item.path, kind, item.size or 0)
    if kind is Kind.EMPTY:
        return Digest(replace(source, note="empty file"))
    if is_nccldoctors_own_report(head):
        return Digest(replace(source, kind=Kind.FOREIGN, note="an earlier report of nccldoctor"))
    if kind is Kind.FOREIGN:
        return Digest(replace(source, note="not evidence that nccldoctor knows"))
    if kind is Kind.LOG:
        return _reader("logs")(source, stream)
    name = _WHOLE.get(kind)
    if name is None or importlib.util.find_spec(f"nccldoctor.parse.{name}") is None:
        return Digest(replace(source, note=f"a {kind.value} file, which is not read yet"))
    data = stream.read(WHOLE_LIMIT + 1)
    if len(data) > WHOLE_LIMIT:
        return Digest(replace(source, note="too large for its kind; not read"))
    return _reader(name)(source, data)


def _reader(name: str) -> Callable[..., Digest]:
    read: Callable[..., Digest] = importlib.import_module(f"nccldoctor.parse.{name}").read
    return read
