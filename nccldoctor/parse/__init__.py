"""Sources into digests: lines to typed events, collective lines to call tables. Knows one file at a time."""

import importlib
import importlib.util
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from nccldoctor.evidence.kinds import HEAD, is_nccldoctors_own_report, kind_of
from nccldoctor.evidence.opening import Input, Stream, open_input
from nccldoctor.model.digest import Digest
from nccldoctor.model.source import Kind, Source
from nccldoctor.parse.call_line import reread
from nccldoctor.parse.portable import MOST_BYTES, loads

__all__ = ["digest_input", "reread", "unreadable"]

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


_STACKS = re.compile(
    rb'\s{0,20}(?:Process \d+: [^\n]{1,4000}\nPython v\d|\[\s{0,20}\{[^\[]{0,2000}"(?:thread_name|frames)")'
)
"""py-spy's dump as text, or as JSON."""


def digest_input(item: Input) -> tuple[Digest, ...]:
    """The digest of one input; several where the input is a file of digests.

    What cannot be read becomes a source with one sentence in its note, never an error.
    """
    if item.trouble:
        return unreadable(item, item.trouble)
    try:
        with open_input(item) as stream:
            return tuple(_noted(digest, stream.note) for digest in _digests(item, stream))
    except (OSError, ValueError, EOFError, MemoryError) as error:
        return unreadable(item, getattr(error, "strerror", None) or str(error) or "out of memory")


def unreadable(item: Input, why: str) -> tuple[Digest, ...]:
    """The digest of an input that nothing could be read of, and why."""
    return (Digest(Source(item.path, Kind.UNREADABLE, item.size or 0, note=why)),)


def _noted(digest: Digest, note: str) -> Digest:
    source = digest.source
    return digest if source.note or not note else replace(digest, source=replace(source, note=note))


def _digests(item: Input, stream: Stream) -> Sequence[Digest]:
    if kind_of(stream.peek(HEAD)[:HEAD]) is not Kind.DIGEST:
        return (_digest(item, stream),)
    source = Source(item.path, Kind.DIGEST, item.size or 0)
    return loads(source, stream.read(MOST_BYTES))


def _digest(item: Input, stream: Stream) -> Digest:
    head = stream.peek(HEAD)[:HEAD]
    kind = kind_of(head)
    source = Source(item.path, kind, item.size or 0)
    if kind is Kind.EMPTY:
        return Digest(replace(source, note="empty file"))
    if is_nccldoctors_own_report(head):
        return Digest(replace(source, kind=Kind.FOREIGN, note="an earlier report of nccldoctor"))
    if kind in (Kind.LOG, Kind.FOREIGN) and _STACKS.match(head):
        return _reader("stacks")(replace(source, kind=Kind.LOG), stream.read(WHOLE_LIMIT))
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
