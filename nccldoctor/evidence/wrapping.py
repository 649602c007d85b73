"""Takes text out of what carries it: UTF-16, JSON lines of log collectors, tables of log viewers."""

import codecs
import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

_CHUNK = 1 << 18
LONGEST_LINE = 1 << 22
"""Characters of a line that is unwrapped; a longer one is passed on as it is."""

_LOOKED_AT = 5
"""Lines at the start that tell whether a file is wrapped."""
_LONGEST_HEADER = 2000
_FARTHEST = 200
"""Characters that may stand before a record in its line."""

_TEXT_KEYS = (
    "log",
    "message",
    "msg",
    "line",
    "textPayload",
    "MESSAGE",
    "@message",
    "body",
    "content",
)
_INNER_KEYS = ("attributes", "jsonPayload", "_source", "fields", "event", "data")
_TIME_KEYS = ("time", "@timestamp", "timestamp", "ts", "Timestamp")
_POD_KEYS = (("kubernetes", "pod_name"), ("kubernetes", "pod", "name"), ("labels", "pod"))
_NOT_WRAPPED = re.compile(
    rb'"(?:inspector_output_format_version|nccldoctor|nccl_version|pg_config|comm_lib_version|entries)"'
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,20}$")
_COLUMN = re.compile(r"^@?(?:log|message|msg|line|content|textpayload|_raw|body)$", re.I)


def wrapping(head: bytes) -> str | None:
    """How the text that starts with `head` is wrapped: "utf-16-le", "utf-16-be", "json-lines", "table" or None."""
    if head[:2] == b"\xff\xfe" or _every_other(head, 1):
        return "utf-16-le"
    if head[:2] == b"\xfe\xff" or _every_other(head, 0):
        return "utf-16-be"
    lines = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", _LOOKED_AT)[:_LOOKED_AT]
    if any(
        b'{"' in line[:_FARTHEST]
        and not _NOT_WRAPPED.search(line)
        and _unwrapped(line.decode("utf-8", "replace"))
        for line in lines
    ):
        return "json-lines"
    table = len(lines) > 1 and _column(lines[0].decode("utf-8", "replace")) is not None
    return "table" if table else None


def _every_other(head: bytes, start: int) -> bool:
    """Is it ASCII text with a NUL byte on one side of each character?"""
    part = head[:512]
    half = len(part) // 2
    return (
        half >= 8 and part[start::2].count(0) * 10 >= half * 9 and not part[1 - start :: 2].count(0)
    )


class Unwrapped:
    """The plain lines of wrapped text, as UTF-8; each stays on the line of the file that it came from."""

    def __init__(self, packed: BinaryIO, how: str) -> None:
        if how.startswith("utf-16"):
            self._pieces = _recoded(packed, how)
        else:
            self._pieces = (_from_table if how == "table" else _from_json)(_text_lines(packed))
        self._left = b""

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end."""
        parts, length = [self._left], len(self._left)
        while length < size and (piece := next(self._pieces, None)) is not None:
            parts.append(piece.encode("utf-8", "replace"))
            length += len(parts[-1])
        data = b"".join(parts)
        self._left = data[size:]
        return data[:size]


def _recoded(packed: BinaryIO, how: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(how)("replace")
    while data := packed.read(_CHUNK):
        yield decoder.decode(data).removeprefix("\ufeff")
    yield decoder.decode(b"", final=True)


def _text_lines(packed: BinaryIO) -> Iterator[str]:
    while raw := packed.readline(LONGEST_LINE):
        yield raw.decode("utf-8", "replace").removeprefix("\ufeff")


def _from_json(lines: Iterator[str]) -> Iterator[str]:
    """The text of each line; a line that is no record is passed on, one that was cut for length comes with its rest."""
    held = 0
    for line in lines:
        told = _unwrapped(line)
        if told is None:
            yield line
            continue
        prefix, text, whole = told
        yield text if held else prefix + text
        held += 1
        if whole:
            yield "\n" * held
            held = 0
    if held:
        yield "\n" * held


def _unwrapped(line: str) -> tuple[str, str, bool] | None:
    """What a collector's record tells of its text, the text, and whether it ends there; None where it is no record."""
    start = line[:_FARTHEST].find('{"') if len(line) < LONGEST_LINE else -1
    if start < 0 or not line.rstrip().endswith("}"):
        return None
    try:
        record = json.loads(line[start:])
    except (ValueError, RecursionError):
        return None
    text = _text(record)
    if text is None or (start and "log" not in record):
        return None
    part = {"stream", "time"} <= record.keys() and "kubernetes" not in record
    whole = not part or text.endswith("\n")
    text = text.strip("\r\n").replace("\r\n", "\r").replace("\n", "\r")
    return _told(record), text, whole


def _text(record: Any, depth: int = 0) -> str | None:
    if not isinstance(record, dict):
        return None
    for key in _TEXT_KEYS:
        if isinstance(record.get(key), str):
            return str(record[key])
    if depth < 2:
        for key in _INNER_KEYS:
            if (text := _text(record.get(key), depth + 1)) is not None:
                return text
    return None


def _told(record: Mapping[str, Any]) -> str:
    """The record's time and pod, written as `kubectl logs --prefix --timestamps` does."""
    told = ""
    for path in _POD_KEYS:
        value: Any = record
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str) and re.fullmatch(r"[\w.-]{1,200}", value):
            told = f"[pod/{value}/-] "
            break
    times = (record.get(key) for key in _TIME_KEYS)
    time = next((t for t in times if isinstance(t, str) and _TIME.match(t)), None)
    return f"{time} {told}" if time else told


def _column(header: str) -> int | None:
    """The column with the text in a table that has this first line."""
    header = header.rstrip("\r\n")
    if "," not in header or len(header) > _LONGEST_HEADER or "\r" in header:
        return None
    try:
        names = next(csv.reader([header]), [])
    except csv.Error:
        return None
    return next((i for i, name in enumerate(names) if _COLUMN.match(name.strip())), None)


def _from_table(lines: Iterator[str]) -> Iterator[str]:
    column = _column(next(lines, "")) or 0
    yield "\n"
    rows = csv.reader(lines)
    done = 0
    while True:
        try:
            row = next(rows, None)
        except csv.Error:
            row = []
        if row is None:
            return
        text = row[column] if len(row) > column else ""
        times = [cell for cell in row[:column] if _TIME.match(cell)]
        text = text.strip("\r\n").replace("\r\n", "\r").replace("\n", "\r")
        yield " ".join((*times[:1], text)) + "\n" * max(1, rows.line_num - done)
        done = rows.line_num


def opener(how: str) -> Callable[[BinaryIO], Unwrapped]:
    """What unwraps text that is wrapped in this way."""
    return lambda packed: Unwrapped(packed, how)
