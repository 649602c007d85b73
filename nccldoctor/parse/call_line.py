"""One collective line read by itself: for the windows that are read again, and for last calls."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from nccldoctor.evidence.opening import Input, open_input
from nccldoctor.model.calls import POINT_TO_POINT, Call, CallTable

DATATYPES = (
    "int8",
    "uint8",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "float8e4m3",
    "float8e5m2",
)
REDOPS = ("sum", "prod", "max", "min", "avg")

_CALL = re.compile(
    rb"([\w.\-<>]{0,80}):(\d{1,10}):\d{1,10} \[-?\d{1,4}\] (?:NCCL )?INFO (\w{1,40}): opCount [0-9a-f]+ sendbuff \S+ recvbuff \S+ "
    rb"count (\d{1,20}) datatype (\d{1,9}) op (\d{1,9}) root (-?\d{1,9}) comm (\S+) \[nranks="
)


def name_of(names: tuple[str, ...], number: int) -> str:
    """The name of an enum's value; `#12` for those that NCCL gave no name when this was written."""
    return names[number] if number < len(names) else f"#{number}"


def call_in(text: str) -> Call | None:
    """The call that a line logs; None when it is not a call's line."""
    match = _CALL.search(text.encode("utf-8", "replace"))
    return _call(match) if match else None


def reread(table: CallTable, first: int, count: int) -> tuple[Call, ...]:
    """Collective calls of a table, from the ordinal `first` (1 is the first call), read again from its file.

    Fewer than `count` where the table or its file ends. Raises nothing: a file that is gone has no calls.
    """
    first = max(1, first)
    count = min(count, table.count - first + 1)
    if table.earlier:
        return tuple(islice(_over_parts(table, first, count), max(count, 0)))
    kept = table.count - len(table.tail)
    if count <= 0:
        return ()
    if first > kept:
        return table.tail[first - 1 - kept : first - 1 - kept + count]
    calls = _reread(table, first, count)
    try:
        return tuple(calls)
    except (OSError, ValueError, EOFError):
        return ()


def _over_parts(table: CallTable, first: int, count: int) -> Iterator[Call]:
    """The calls of a rotated log: from its older parts, and then from its own file."""
    own = table.count - sum(part.count for part in table.earlier)
    before = 0
    for part in (*table.earlier, replace(table, earlier=(), count=own)):
        if first <= before + part.count:
            calls = reread(part, max(first - before, 1), count)
            yield from calls
            if len(calls) < min(part.count - max(first - before, 1) + 1, count):
                return
            count -= len(calls)
        if count <= 0:
            return
        before += part.count


def _reread(table: CallTable, first: int, count: int) -> Iterator[Call]:
    ordinal, offset = 1, 0
    for at, where in table.seek:
        if at > first:
            break
        ordinal, offset = at, where
    comm = table.comm.encode()
    mark = b" comm " + comm + b" [nranks="
    writer = (table.host.encode(), str(table.pid).encode())
    name, start, size = table.place or (table.file, 0, None)
    with open_input(Input(table.file, name, start, size)) as stream:
        stream.skip(offset)
        for line in stream:
            if mark not in line:
                continue
            for match in _CALL.finditer(line):
                if match[8] != comm or match[2] != writer[1] or not match[1].endswith(writer[0]):
                    continue
                call = _call(match)
                if call.op in POINT_TO_POINT:
                    continue
                if ordinal >= first:
                    yield call
                    count -= 1
                    if not count:
                        return
                ordinal += 1


def _call(match: re.Match[bytes]) -> Call:
    return Call(
        match[3].decode(),
        int(match[4]),
        name_of(DATATYPES, int(match[5])),
        name_of(REDOPS, int(match[6])),
        int(match[7]),
    )
