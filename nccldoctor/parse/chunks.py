"""Cuts a stream into chunks of whole lines, of bounded size whatever the stream holds."""

from collections.abc import Iterator
from typing import BinaryIO

CHUNK = 1 << 16
LONGEST_LINE = 1 << 20


def chunks(stream: BinaryIO) -> Iterator[bytes]:
    """Pieces of the stream that each end in a newline; the last gets one if the file has none.

    A line longer than `LONGEST_LINE` is cut there, so that a file without newlines does no harm.
    """
    held: list[bytes] = []
    size = 0
    while data := stream.read(CHUNK):
        end = data.rfind(b"\n") + 1
        if end:
            yield b"".join((*held, data[:end]))
            held, size = [data[end:]], len(data) - end
        else:
            held.append(data)
            size += len(data)
            if size >= LONGEST_LINE:
                yield b"".join(held) + b"\n"
                held, size = [], 0
    if size:
        yield b"".join(held) + b"\n"
