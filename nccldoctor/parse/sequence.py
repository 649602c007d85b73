"""The calls of one communicator while its log is read: windows digested, ends kept, the rest forgotten."""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from nccldoctor.model.calls import WINDOW, Call, CallTable
from nccldoctor.parse.call_line import call_in

SEEK_POINTS = 1024
MOST_KINDS = 4096
"""Kinds of calls that a table's `mix` counts; programs with more have no mix worth showing."""

_OP_COUNT = re.compile(rb" opCount ([0-9a-f]{1,16}) ").search
_KEPT_TEXT = 2000

Symbol = bytes
"""8 bytes that stand for (op, datatype, redop, root), then the count's digits."""
Place = tuple[str, int, int | None]
"""File, offset and size of what is read, as `evidence.opening.Input` has them."""
Chunk = tuple[bytes, int]
"""A newline and whole lines, with the number of the first of these."""


def window_digest(symbols: list[Symbol]) -> bytes:
    """The digest of consecutive calls."""
    return blake2b(b",".join(symbols), digest_size=8).digest()


@dataclass(slots=True)
class Sequence:
    """One communicator of one process. The lists keep their identity: their `append` is handed out."""

    host: bytes
    pid: bytes
    comm: bytes
    device: int
    nranks: int
    generation: int
    pending: list[Symbol] = field(default_factory=list)
    windows: list[bytes] = field(default_factory=list)
    digested: int = 0
    counted: int = 0
    mix: Counter[Symbol] = field(default_factory=Counter)
    seek: list[tuple[int, int]] = field(default_factory=list)
    peers: dict[tuple[str, int], list[Symbol]] = field(default_factory=dict)
    peer_counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    begin: int = 0
    sought: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    last: tuple[int, str, int | None] = (0, "", None)
    holed: bool = False

    @property
    def count(self) -> int:
        """Collective calls so far."""
        return self.digested + len(self.pending)

    def drain(self, block: int, chunks: list[Chunk]) -> None:
        """Digests full windows, counts kinds; everything new was read from `block` on, in these chunks.

        The chunks are kept until the next time, because the last call of all is looked up in them.
        """
        count = self.count
        if count == self.sought:
            self.forget_chunks()
        else:
            self.chunks = chunks
            self.seek.append((self.sought + 1, max(block, self.begin)))
            self.sought = count
            if len(self.seek) > SEEK_POINTS:
                del self.seek[1::2]
        pending = self.pending
        if len(self.mix) < MOST_KINDS:
            self.mix.update(pending[self.counted - self.digested :])
        full = len(pending) // WINDOW * WINDOW
        for start in range(0, full, WINDOW):
            self.windows.append(window_digest(pending[start : start + WINDOW]))
        del pending[:full]
        self.digested += full
        self.counted = count
        for peer, symbols in self.peers.items():
            if symbols:
                self.peer_counts[peer] += len(symbols)
                symbols.clear()

    def forget_chunks(self, end: int | None = None) -> None:
        """Finds the last call's line in the chunks kept for it, before byte `end` of the last, and lets them go."""
        chunks, self.chunks = self.chunks, []
        for data, first in reversed(chunks):
            if self._find_last(data, first, len(data) if end is None else end):
                return
            end = None

    def _find_last(self, data: bytes, first: int, position: int) -> bool:
        mark = b" comm " + self.comm + b" [nranks="
        writer = self.host + b":" + self.pid + b":"
        while (position := data.rfind(mark, 0, position)) >= 0:
            start = data.rfind(b"\n", 0, position) + 1
            head, _, _ = data[start:position].partition(b" opCount ")
            if writer in head and not head.endswith((b"Send:", b"Recv:")):
                stop = data.find(b"\n", position)
                text = data[start : stop if stop >= 0 else len(data)]
                op_count = _OP_COUNT(text)
                self.last = (
                    first + data.count(b"\n", 1, start),
                    text.decode("utf-8", "replace").rstrip("\r")[:_KEPT_TEXT],
                    int(op_count[1], 16) if op_count else None,
                )
                return True
            position = start
        return False

    def restart(self, generation: int) -> None:
        """Begins again: the pointer belongs to a new communicator."""
        self.generation = generation
        self.holed = False
        self.pending.clear()
        self.windows = []
        self.mix = Counter()
        self.seek = []
        self.peer_counts = Counter()
        self.digested = self.counted = self.sought = 0
        self.chunks = []
        self.last = (0, "", None)

    def table(self, file: str, place: Place | None, calls: "Calls") -> CallTable | None:
        """The table, once drained; None when nothing was called."""
        if not self.count and not self.peer_counts:
            return None
        tail = tuple(map(calls.__getitem__, self.pending))
        return CallTable(
            file=file,
            host=self.host.decode("utf-8", "replace"),
            pid=int(self.pid),
            device=self.device,
            comm=self.comm.decode("utf-8", "replace"),
            generation=self.generation,
            nranks=self.nranks,
            count=self.count,
            windows=tuple(self.windows),
            tail=tail,
            last=_last_of(self.last[1], tail),
            last_line=self.last[0],
            last_text=self.last[1],
            last_op_count=self.last[2],
            seek=tuple(self.seek),
            place=place,
            mix={calls[s]: n for s, n in sorted(self.mix.items(), key=lambda i: (-i[1], i[0]))},
            peers=dict(sorted(self.peer_counts.items())),
            holed=self.holed,
        )


class Calls(dict[Symbol, Call]):
    """The call that each symbol stands for, made once; `kinds` says what the first 8 bytes mean."""

    def __init__(self) -> None:
        self.kinds: dict[bytes, Call] = {}

    def __missing__(self, symbol: Symbol) -> Call:
        call = self[symbol] = replace(self.kinds[symbol[:8]], count=int(symbol[8:]))
        return call


def _last_of(text: str, tail: tuple[Call, ...]) -> Call | None:
    if tail:
        return tail[-1]
    return call_in(text)
