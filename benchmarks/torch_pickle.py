"""Pickles plain data as PyTorch's pickler in C++ does: protocol 2, with texts and shared dicts alone in the memo."""

import struct
from typing import Any


class Shared(dict[str, Any]):
    """A dict that more than one entry holds; it is written once."""


def dumps(value: dict[str, Any]) -> bytes:
    """The pickle of a dict of dicts, lists, pairs, texts, whole numbers, truth values and None."""
    parts = [b"\x80\x02"]
    _push(Shared(value), parts, {})
    return b"".join([*parts, b"."])


def _push(value: Any, parts: list[bytes], memo: dict[Any, int]) -> None:
    kept = value if isinstance(value, str) else id(value) if isinstance(value, Shared) else None
    if kept in memo:
        parts.append(_slot(b"h", b"j", memo[kept]))
        return
    if value is None or isinstance(value, bool):
        parts.append(b"N" if value is None else b"\x88" if value else b"\x89")
    elif isinstance(value, int):
        parts.append(_number(value))
    elif isinstance(value, str):
        text = value.encode()
        parts += [b"X", struct.pack("<I", len(text)), text]
    elif isinstance(value, dict):
        _push_all((part for item in value.items() for part in item), b"}(", b"u", parts, memo)
    elif isinstance(value, list):
        _push_all(value, b"](", b"e", parts, memo)
    else:
        _push_all(value, b"", b"\x86", parts, memo)
    if kept is not None:
        memo[kept] = len(memo)
        parts.append(_slot(b"q", b"r", memo[kept]))


def _push_all(
    values: Any, head: bytes, tail: bytes, parts: list[bytes], memo: dict[Any, int]
) -> None:
    parts.append(head)
    for value in values:
        _push(value, parts, memo)
    parts.append(tail)


def _slot(near: bytes, far: bytes, number: int) -> bytes:
    return near + bytes([number]) if number < 256 else far + struct.pack("<I", number)


def _number(value: int) -> bytes:
    if 0 <= value < 1 << 8:
        return b"K" + bytes([value])
    if 0 <= value < 1 << 16:
        return b"M" + struct.pack("<H", value)
    if -1 << 31 <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)
