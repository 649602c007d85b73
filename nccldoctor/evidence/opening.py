"""Opens an input as a stream of plain bytes, whatever it is packed or wrapped in; bounded, so that no bomb goes off."""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from nccldoctor.evidence.wrapping import opener, wrapping

MOST_EXPANSION = 2000
FREE_EXPANSION = 256 << 20
"""Unpacked bytes from which on `MOST_EXPANSION` is looked at; logs repeat themselves and pack well."""

_CHUNK = 1 << 18
_HEAD = 1 << 16
"""What is read of a stream at a time; more makes a thousand small files slow, and no large one fast."""

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)


@dataclass(frozen=True, slots=True)
class Input:
    """One file, or one member of a tar file. `path` is for people; `trouble` says why it cannot be used.

    The bytes are those of `file` from `offset` on, `size` of them (None: to the end), still compressed if they were.
    """

    path: str
    file: str
    offset: int = 0
    size: int | None = None
    trouble: str = ""


class Stream(io.BufferedReader):
    """The plain bytes of an input. A packed file that is torn or a bomb ends early, and `note` then says so."""

    def __init__(self, raw: "_Slice | _Unpacked") -> None:
        super().__init__(raw, _HEAD)
        self._source = raw

    @property
    def note(self) -> str:
        return self._source.note

    @property
    def place(self) -> tuple[str, int, int | None]:
        """File, offset and size that this stream was opened from."""
        item = self._source.item
        return item.file, item.offset, item.size

    def skip(self, count: int) -> None:
        """Goes forward by `count` plain bytes, in one step where the input is not packed."""
        if not self.compressed:
            self.seek(count)
            return
        while count > 0 and (data := self.read(min(count, _CHUNK))):
            count -= len(data)

    @property
    def compressed(self) -> bool:
        return isinstance(self._source, _Unpacked)


def open_input(item: Input) -> Stream:
    """The input's bytes, unpacked as often as it was packed (twice at most), and text unwrapped from its carriers.

    Raises OSError or ValueError with one sentence.
    """
    if item.trouble:
        raise ValueError(item.trouble)
    plain = _Slice(item)
    raw: _Slice | _Unpacked = plain
    for _ in range(2):
        stream = Stream(raw)
        packing = _packing(stream.peek(8))
        if packing is None:
            break
        raw = _Unpacked(stream, _OPENERS[packing], plain)
    else:
        stream = Stream(raw)
    for _ in range(2):
        how = wrapping(stream.peek(_HEAD)[:_HEAD])
        if how is None:
            break
        stream = Stream(_Unpacked(stream, opener(how), plain))
    return stream


def _packing(head: bytes) -> str | None:
    return next((name for magic, name in _MAGIC if head.startswith(magic)), None)


class _Slice(io.RawIOBase):
    """A part of a file."""

    note = ""

    def __init__(self, item: Input) -> None:
        self.item = item
        self._file = Path(item.file).open("rb", buffering=0)  # noqa: SIM115
        self._start = item.offset
        self._end = None if item.size is None or not item.offset else item.offset + item.size
        self.position = item.offset
        if item.offset:
            self._file.seek(item.offset)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset += self.position - self._start
        elif whence == io.SEEK_END:
            end = self._end if self._end is not None else self._file.seek(0, io.SEEK_END)
            offset += end - self._start
        self.position = self._file.seek(self._start + offset)
        return offset

    def tell(self) -> int:
        return self.position - self._start

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        if self._end is not None:
            view = view[: max(0, self._end - self.position)]
        count = self._file.readinto(view) or 0
        self.position += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class _Reads(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Gunzip:
    """gzip without the standard module's small steps; several members in a row are one file."""

    def __init__(self, packed: BinaryIO) -> None:
        self._packed = packed
        self._machine = zlib.decompressobj(31)
        self._rest = b""
        self._damage: zlib.error | None = None

    def read(self, size: int) -> bytes:
        while True:
            if self._damage:
                raise self._damage
            if self._machine.eof:
                self._rest = (self._machine.unused_data or self._packed.read(_CHUNK)).lstrip(b"\0")
                if not self._rest:
                    return b""
                self._machine = zlib.decompressobj(31)
            self._rest = self._rest or self._packed.read(_CHUNK)
            if not self._rest:
                raise EOFError("the end is missing")
            before = self._machine.copy()
            try:
                data = self._machine.decompress(self._rest, size)
            except zlib.error as error:
                self._damage = error
                data = _salvaged(before, self._rest, size)
            self._rest = self._machine.unconsumed_tail
            if data:
                return data


def _salvaged(machine: "zlib._Decompress", packed: bytes, size: int) -> bytes:
    """What comes out of a damaged piece before the damage."""
    made = b""
    with suppress(zlib.error):
        for at in range(len(packed)):
            made += machine.decompress(machine.unconsumed_tail + packed[at : at + 1], size)
            if len(made) >= size:
                break
    return made[:size]


def _zstd(packed: BinaryIO) -> _Reads:
    import zstandard

    machine = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    return machine.stream_reader(packed, read_size=_CHUNK, read_across_frames=True)


_OPENERS: dict[str, Callable[[BinaryIO], _Reads]] = {
    "gzip": _Gunzip,
    "bzip2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zstd": _zstd,
}


class _Unpacked(io.RawIOBase):
    """What a compressed or wrapped stream unpacks to."""

    def __init__(
        self, packed: Stream, machine: "Callable[[BinaryIO], _Reads]", plain: _Slice
    ) -> None:
        self._packed = packed
        self._plain = plain
        self.item = plain.item
        self._machine = machine(packed)
        self._made = 0
        self.note = ""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        data = b"" if self.note else self._more(len(view))
        view[: len(data)] = data
        return len(data)

    def _more(self, size: int) -> bytes:
        try:
            data = self._machine.read(size)
        except EOFError:
            self.note = "its packed part is cut short; what could be unpacked was read"
            return b""
        except Exception as error:  # each library has its own, and zstandard's is loaded lazily
            self.note = f"its packed part is damaged ({error}); what could be unpacked was read"
            return b""
        self._made += len(data)
        used = max(1, self._plain.tell())
        if self._made > FREE_EXPANSION and self._made > used * MOST_EXPANSION:
            self.note = f"it unpacks to over {MOST_EXPANSION} times its size; the rest was not read"
            return b""
        return data

    def close(self) -> None:
        self._packed.close()
        super().close()
