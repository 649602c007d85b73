"""Reads pickles of plain data from strangers: no global is ever looked up, and a cut file is read as far as it goes."""

import io
import pickle
import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

PLAIN_PROTOCOL = 2
"""The protocol of PyTorch's pickler, which knows no tuples but pairs; all else is read too, more slowly."""

_MOST_PAIRS = 10_000
"""Pairs in pairs are hashed on the thread's stack, of which each takes some 80 bytes."""

_MANY, _ANY = ("*+", "*+") if sys.version_info >= (3, 11) else ("{0,200}", "*")
"""Before 3.11 a pattern remembers every step that it could take back."""

_LONGS = "|".join(rf"\x8a\x{n:02x}.{{{n}}}" for n in range(9))
_TEXTS = "|".join(rf"\x{n:02x}\x00\x00\x00.{{{n}}}" for n in range(80))
_SHORT = rf"[\]}}(uesaN\x88\x89]{_ANY}"
_RUN = re.compile(
    (
        rf"(?:{_SHORT}(?:h.(?:h.){_MANY}|[Kq].|\x86(?![(qr])|r..[\x00-\x1f]\x00|M..|\x8a\x08.{{8}}|j.{{4}}|J.{{4}}|G.{{8}}|X(?:{_TEXTS})|{_LONGS}))"
        rf"{_MANY}{_SHORT}"
    ).encode(),
    re.S,
)
"""Opcodes of lists, dicts, pairs, numbers, short texts and the memo; longer texts are stepped over one by one."""

_KEPT_PAIR = re.compile(rb"\x86(?:q.|r.{4})(?![(qr])", re.S)

_KNOWN = b"(.0FGIJKLMNSTUVXBC]}adeghjlpqrsu\x80\x88\x89\x8a\x8b\x8c\x8d\x94\x95"
_REFUSED = b"ciPQ\x82\x83\x84\x93"
"""Opcodes of plain data in any protocol, and those whose loaders ask for more."""


class Refused(Exception):
    """The pickle asks for more than plain data; the message says for what."""


def loads(data: bytes) -> tuple[Any, bool]:
    """The object of a pickle, and whether the pickle was cut short and only a part of it could be read.

    Raises Refused for a pickle that names a global, and ValueError for bytes that are no pickle.
    """
    try:
        if plain := _plain(data):
            return _Unpickler(_Whole(plain)).load(), False
    except Refused:
        raise
    except Exception:  # a torn pickle raises whatever its torn part looks like
        pass
    return _Salvage(data).read()


def _plain(data: bytes) -> bytes | None:
    """The pickle, when it holds plain data only and costs no more memory and time than it is long; None otherwise.

    CPython's unpickler allocates as much memo as the largest index in the file asks for. And it hashes keys: a pair of
    twice the same pair of twice the same pair, and so on, would take for ever. So pairs are left out of the memo, into
    which Python's own pickler puts them; none may get there behind a mark and its end either, or be put in twice.
    """
    if data[:2] != bytes([0x80, PLAIN_PROTOCOL]) or data.count(pickle.TUPLE2) > _MOST_PAIRS:
        return None
    parts = []
    begin, position, size = 0, 2, len(data)
    while position < size:
        run = _RUN.match(data, position)
        start, position = position, run.end() if run else position
        if data[position : position + 1] == pickle.BINUNICODE:
            position += 5 + int.from_bytes(data[position + 1 : position + 5], "little")
        elif kept := _KEPT_PAIR.match(data, position):
            parts.append(data[begin : position + 1])
            begin = position = kept.end()
        elif position == start:
            break
    whole = data[position : position + 1] == pickle.STOP
    return b"".join([*parts, data[begin:]]) if whole else None


class _Whole(io.BytesIO):
    """A file that shows all of its rest at once, without a copy at its start."""

    def peek(self, _: int, /) -> bytes:
        return self.getvalue()[self.tell() :]


class _Strict:
    """Knows no global, nothing outside of the pickle, and no extension."""

    def find_class(self, module: str, name: str, /) -> Any:
        raise Refused(f"it asks for {module}.{name}"[:200])

    def persistent_load(self, pid: Any, /) -> Any:
        raise Refused("it asks for objects outside of it")

    def get_extension(self, code: int) -> Any:
        raise Refused(f"it asks for extension {code}")


class _Unpickler(_Strict, pickle.Unpickler):
    pass


def _pack(count: int, machine: Any) -> None:
    machine.stack[-count:] = [machine.stack[-count:]]


class _Salvage(_Strict, pickle._Unpickler):
    """The pickle machine in Python: its memo is a dict, and its stack can be looked at when the file ends.

    It makes lists of tuples, as lists are no keys, and knows no opcodes but those of plain data.
    """

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **{code: pickle._Unpickler.dispatch[code] for code in _KNOWN + _REFUSED},
        pickle.EMPTY_TUPLE[0]: pickle._Unpickler.dispatch[pickle.EMPTY_LIST[0]],
        pickle.TUPLE[0]: pickle._Unpickler.dispatch[pickle.LIST[0]],
        pickle.TUPLE1[0]: partial(_pack, 1),
        pickle.TUPLE2[0]: partial(_pack, 2),
        pickle.TUPLE3[0]: partial(_pack, 3),
    }

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))

    def read(self) -> tuple[Any, bool]:
        try:
            return self.load(), False
        except Refused:
            raise
        except Exception as error:  # whatever the torn part looks like
            result = self._rest()
            if result is None:
                raise ValueError(f"not a readable pickle ({type(error).__name__})") from None
            return result, True

    def _rest(self) -> Any:
        """The outermost container, with every open one put into it."""
        open_stacks = [*getattr(self, "metastack", ()), getattr(self, "stack", [])]
        for outer, inner in zip(reversed(open_stacks[:-1]), reversed(open_stacks[1:]), strict=True):
            if outer and isinstance(outer[-1], list):
                outer[-1].extend(inner)
            elif outer and isinstance(outer[-1], dict):
                keys, values = inner[::2], inner[1::2]
                pairs = zip(keys, values, strict=False)
                outer[-1].update((k, v) for k, v in pairs if isinstance(k, (str, int)))
        bottom = open_stacks[0]
        return _close(bottom) if bottom else None


def _close(stack: list[Any]) -> Any:
    """What a stack without marks holds: a container, then perhaps keys and values not yet put into it."""
    result = stack[0]
    if isinstance(result, dict) and len(stack) > 2 and isinstance(stack[1], (str, int)):
        result.update([(stack[1], stack[2])])
    return result if isinstance(result, (dict, list)) else None
