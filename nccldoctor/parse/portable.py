"""Digests as a file that can be read anywhere: JSON of known classes only, packed with zstandard."""

import base64
import importlib
import json
import pkgutil
import sys
import types
import typing
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any

from nccldoctor.model import calls, digest, events, source
from nccldoctor.model.digest import Digest
from nccldoctor.model.source import Source

VERSION = 1
MOST_BYTES = 1 << 30
"""An unpacked digest file may have this many bytes."""


def dumps(digests: Sequence[Digest]) -> bytes:
    """The digests, in their order; the same digests give the same bytes."""
    import zstandard

    body = {"nccldoctor": "digest", "schema": VERSION, "digests": [_encode(d) for d in digests]}
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=True)
    return zstandard.ZstdCompressor(level=6).compress(text.encode())


def loads(source: Source, data: bytes) -> list[Digest]:
    """The digests in a file that `dumps` wrote, already unpacked.

    A file of another version, or one that is torn or forged, becomes a single digest whose source says so.
    """
    try:
        body = json.loads(data)
        if body.get("schema") != VERSION:
            raise ValueError(
                f"a digest of schema {body.get('schema')}; this nccldoctor reads {VERSION}"
            )
        return [_decode(Digest, entry) for entry in body["digests"]]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        return [Digest(replace(source, note=f"not a usable digest: {error}"[:200]))]


def _encode(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {"": type(value).__name__} | {
            f.name: _encode(v)
            for f in fields(value)
            if not _is_default(f, v := getattr(value, f.name))
        }
    if isinstance(value, Mapping):
        return [[_encode(k), _encode(v)] for k, v in value.items()]
    if isinstance(value, (tuple, list, frozenset)):
        return [_encode(v) for v in value]
    if isinstance(value, bytes):
        return base64.b85encode(value).decode()
    if isinstance(value, array):
        return [value.typecode, base64.b85encode(_little(value).tobytes()).decode()]
    return value.isoformat() if isinstance(value, datetime) else value


def _is_default(field: "Field[Any]", value: Any) -> bool:
    """Is the field as its class makes it when nothing is said?"""
    if field.default is not MISSING:
        return type(value) is type(field.default) and value == field.default
    return value == {} and field.default_factory is dict


def _decode(hint: Any, value: Any) -> Any:
    if value is None or hint is Any:
        return value
    if isinstance(value, dict):
        return _object(hint, value)
    if isinstance(hint, types.UnionType):
        hint = next(a for a in typing.get_args(hint) if a is not type(None))
        return _decode(hint, value)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        each = inner[0] if len(inner) == 2 and inner[1] is Ellipsis else None
        kinds: Sequence[Any] = [each] * len(value) if each else inner
        return tuple(_decode(k, v) for k, v in zip(kinds, value, strict=True))
    if hint is array:
        numbers: array[Any] = array(value[0], base64.b85decode(value[1]))
        return _little(numbers)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {_decode(inner[0], k): _decode(inner[1], v) for k, v in value}
    return _plain(hint, value)


def _object(hint: Any, value: Mapping[str, Any]) -> Any:
    known = _classes()[value[""]]
    if is_dataclass(hint) and not issubclass(known, typing.cast(type, hint)):
        raise ValueError(f"{value['']} is out of place")
    hints = _hints(known)
    return known(**{k: _decode(hints[k], v) for k, v in value.items() if k})


def _plain(hint: Any, value: Any) -> Any:
    if hint is bytes:
        return base64.b85decode(value)
    if hint is datetime:
        return datetime.fromisoformat(value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    if hint is float and isinstance(value, int):
        return float(value)
    if not isinstance(value, hint):
        raise ValueError(f"{type(value).__name__} where {hint.__name__} belongs")
    return value


def _little(numbers: "array[Any]") -> "array[Any]":
    """The same numbers in little-endian bytes, or back from them."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers


class _Array:
    """Stands for array.array in hints, which is no generic class before Python 3.12."""

    def __class_getitem__(cls, _: object) -> type:
        return array


@cache
def _hints(known: Any) -> Mapping[str, Any]:
    return typing.get_type_hints(known, localns={"array": _Array})


@cache
def _classes() -> Mapping[str, Any]:
    """The classes that a digest file may name: those of the model, and nothing else."""
    modules = [calls, digest, source] + [
        importlib.import_module(m.name)
        for m in pkgutil.iter_modules(events.__path__, prefix=f"{events.__name__}.")
    ]
    return {n: c for module in modules for n, c in vars(module).items() if is_dataclass(c)}
