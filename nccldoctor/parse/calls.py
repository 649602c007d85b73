"""Digests collective lines into call tables at the speed of splitting bytes, without an object per call."""

import re
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b

from nccldoctor.model.calls import POINT_TO_POINT, Call, CallTable
from nccldoctor.parse.call_line import DATATYPES, REDOPS, name_of
from nccldoctor.parse.sequence import Calls, Sequence, Symbol

CLUE = b" opCount "
HOLES = b" bytes left out here", b"\0" * 64
"""What stands where nccldoctor took the middle out of a log, closed and while the job still writes."""
_CUT = re.compile(rb" opCount [^ ]+ sendbuff [^ ]+ recvbuff [^ ]+ count ").split
_BODY = re.compile(
    rb"(\d{1,20}) datatype (\d{1,9}) op (\d{1,9}) root (-?\d{1,9}) comm (\S{1,40}) \[nranks=(\d{1,9})\]"
).match
_HEAD = re.compile(
    rb"([\w.\-<>]{0,80}):(\d{1,10}):\d{1,10} \[(-?\d{1,4})\] (?:NCCL )?INFO (\w{1,40}):?$"
).search
_INIT = re.compile(
    rb"([\w.\-<>]{0,80}):(\d{1,10}):\d{1,10} \[-?\d{1,4}\] NCCL INFO [^\n]{0,80}?\bcomm (0x[0-9a-f]{1,16}) rank "
    rb"[^\n]{0,300}? ?- Init (START|COMPLETE)"
).finditer
_MOST_PIECES = 1 << 14
_MOST_HEADS = 1 << 13
_MOST_HOSTS = 1 << 12
_CHUNKS_A_BLOCK = 16
_SETTLING = 4_000
_POINT_TO_POINT = frozenset(op.encode() for op in POINT_TO_POINT)

Key = tuple[bytes, bytes, bytes]
"""Host, process and pointer of a communicator."""
Put = tuple[Callable[[Symbol], object], Symbol]
"""What takes a call's symbol, and the symbol."""
Step = tuple[Callable[[Symbol], object], Symbol, "_After"]
"""The same, and what follows the head of the next call."""


class _After(dict[bytes, Step]):
    """What follows one head: the piece up to the next cut → where the call goes, and the head at the piece's end."""

    __slots__ = ("calls", "device", "op", "process", "puts")

    def __init__(
        self, calls: "CallReader", process: tuple[bytes, bytes] | None, device: int, op: bytes
    ) -> None:
        self.calls = calls
        self.process = process
        self.device = device
        self.op = op
        self.puts = _Puts(self)

    def __missing__(self, piece: bytes) -> Step:
        return self.calls.step(self, piece)


class _Puts(dict[bytes, Put]):
    """What follows one head, by the end of the call's line alone."""

    __slots__ = ("after",)

    def __init__(self, after: _After) -> None:
        self.after = after

    def __missing__(self, end: bytes) -> Put:
        return self.after.calls.put(self.after, end)


class CallReader:
    """Digests the collective lines of one file; give it whole lines, in order.

    A call line is cut at ` opCount … count `; what lies between two cuts (the end of one line and the head of the
    next) repeats itself so much that a dictionary of whole pieces knows nearly all of them.
    """

    def __init__(self, path: str, place: tuple[str, int, int | None] | None = None) -> None:
        self.lost = 0
        self.holes = 0
        self.records = 0
        self._path = path
        self._place = place
        self._nowhere = _After(self, None, -1, b"")
        self._after: dict[tuple[bytes, bytes, bytes, bytes], _After] = {}
        self._heads: dict[bytes, _Puts] = {}
        self._sequences: dict[Key, Sequence] = {}
        self._inits: Counter[Key] = Counter()
        self._starting: set[Key] = set()
        self._before_hole: Counter[Key] | None = None
        self._calls = Calls()
        self._hosts: set[bytes] = set()
        self._tables: list[CallTable] = []
        self._others: list[bytes] = []
        self._now: tuple[bytes, int] = (b"", 0)
        self._recent: list[tuple[bytes, int]] = []
        self._found = (0, 0, 0)
        self._line = 1
        self._offset = 0
        self._apart = self._uneven = False
        self._width = self._pieces = self._misses = self._settled = self._block = 0

    @property
    def lines(self) -> int:
        """Lines so far."""
        return self._line - 1

    def feed(self, chunk: bytes) -> list[bytes]:
        """Takes the calls of a chunk, and returns the other lines: one or several at a time, in order.

        A chunk is whole lines, the last one too ends in a newline. `line_of` numbers what is returned.
        """
        framed = b"\n" + chunk
        self._now = (framed, self._line)
        self._found = (0, 0, self._line)
        others: list[bytes] = []
        self._others = others
        if CLUE in chunk:
            self._recent.append(self._now)
            pieces = _CUT(framed)
            if self._apart:
                self._take_apart(pieces)
            else:
                after = self._nowhere
                for piece in pieces:
                    append, symbol, after = after[piece]
                    append(symbol)
            self.records += len(pieces) - 1
            self.lost -= 1  # the first piece belongs to no call
            lines = len(pieces) - 1 + sum(1 + block.count(b"\n") for block in others)
            self._finish_chunk(len(chunk), lines)
        else:
            self._restart(self._aside(chunk[:-1]), None)
            self._line += chunk.count(b"\n")
            self._offset += len(chunk)
        return others

    def line_of(self, index: int) -> int:
        """The line number at which the other lines of this index begin; ask in ascending order."""
        framed, _ = self._now
        place, search, line = self._found
        block = self._others[index]
        found = framed.find(b"\n" + block + b"\n", search)
        if found >= 0:
            line += framed.count(b"\n", place + 1, found + 1)
            self._found = (found, found + len(block) + 1, line)
        return line

    def tables(self) -> list[CallTable]:
        """All tables, once the file has been read, in the order in which their communicators first called."""
        for sequence in self._sequences.values():
            self._close(sequence, None)
        tables, self._tables = self._tables, []
        return tables

    def step(self, after: _After, piece: bytes) -> Step:
        """What a piece says that has not been seen after this head; other lines within it are kept aside."""
        end, newline, rest = piece.partition(b"\n")
        middle, _, head = rest.rpartition(b"\n")
        if middle:
            starting = self._aside(middle)
            append, symbol, following = after[end + b"\n" + head]
            if starting:
                append = self._append_and_restart(append, starting, self._now[0].find(middle))
            return append, symbol, following
        if not newline or len(rest) != len(head):
            self._uneven = True
        append, symbol = self.put(after, end)
        step = append, symbol, self._after_head(head if newline else end)
        self._misses += 1
        self._pieces += 1
        if self._pieces > _MOST_PIECES:
            self._forget_pieces()
        after[piece] = step
        return step

    def _take_apart(self, pieces: list[bytes]) -> None:
        """The loop of `feed` with bodies and heads apart, for files that combine them in too many ways."""
        puts = self._nowhere.puts
        heads = self._heads
        width = self._width
        for piece in pieces:
            end, _, head = piece.partition(b"\n")
            append, symbol = puts[end]
            following = heads.get(head[width:])
            if following is None:
                append, following = self._new_head(piece, append)
                width = self._width
            append(symbol)
            puts = following

    def _new_head(
        self, piece: bytes, append: Callable[[Symbol], object]
    ) -> tuple[Callable[[Symbol], object], "_Puts"]:
        """What follows a head that is not in the dictionary, or has lines before it, or another width of prefix."""
        end, newline, rest = piece.partition(b"\n")
        middle, _, head = rest.rpartition(b"\n")
        if middle and (starting := self._aside(middle)):
            append = self._append_and_restart(append, starting, self._now[0].find(middle))
        if not newline or (len(rest) != len(head) and not middle):
            self._uneven = True
        if not newline:
            return append, self._after_head(end).puts
        width = head.rfind(b" ", 0, head.rfind(b" [")) + 1
        key = head[width:]
        following = self._heads.get(key)
        if following is None:
            following = self._after_head(head).puts
            if head and len(self._heads) < _MOST_HEADS:
                self._heads[key] = following
        self._width = width
        return append, following

    def _forget_pieces(self) -> None:
        for after in self._after.values():
            after.clear()
            after.puts.clear()
        self._nowhere.clear()
        self._pieces = 0

    def put(self, after: _After, end: bytes) -> Put:
        """Where the call goes that has this head and this end."""
        match = _BODY(end)
        if match is None or after.process is None:
            after.puts[end] = self._drop, b""
            return self._drop, b""
        if len(after.puts) >= _MOST_HEADS:
            after.puts.clear()
        put = after.puts.get(match[0])
        if put is None:
            put = after.puts[match[0]] = self._new_put(after, after.process, match)
        after.puts[end] = put
        return put

    def _new_put(self, after: _After, process: tuple[bytes, bytes], body: re.Match[bytes]) -> Put:
        count, datatype, redop, root, comm, nranks = body.groups()
        key = (*process, comm)
        sequence = self._sequences.get(key)
        if sequence is None:
            sequence = Sequence(
                *key,
                after.device,
                int(nranks),
                max(0, self._inits[key] - 1),
                begin=self._block,
                holed=self._before_hole is not None and self._inits[key] <= self._before_hole[key],
            )
            self._sequences[key] = sequence
        kind = b" ".join((after.op, datatype, redop, root))
        signature = blake2b(kind, digest_size=8).digest()
        op, peer = after.op.decode(), int(root)
        self._calls.kinds[signature] = Call(
            op, None, name_of(DATATYPES, int(datatype)), name_of(REDOPS, int(redop)), peer
        )
        if after.op in _POINT_TO_POINT:
            return sequence.peers.setdefault((op, peer), []).append, signature + count
        return sequence.pending.append, signature + count

    def _append_and_restart(
        self, append: Callable[[Symbol], object], starting: list[Key], end: int
    ) -> Callable[[Symbol], None]:
        """Communicators that begin behind a call begin after it."""

        def append_and_restart(symbol: Symbol) -> None:
            append(symbol)
            self._restart(starting, end)

        return append_and_restart

    def _aside(self, lines: bytes) -> list[Key]:
        """Keeps other lines for the caller; returns the communicators that begin in them."""
        self._others.append(lines)
        if any(hole in lines for hole in HOLES):
            self.holes += 1
            self._before_hole = self._inits.copy()
            for sequence in self._sequences.values():
                sequence.holed = True
        if b" Init " not in lines:
            return []
        starting = []
        for match in _INIT(lines):
            key = (self._known_host(match[1]), match[2], match[3])
            if match[4] == b"START":
                self._starting.add(key)
                starting.append(key)
            elif key in self._starting:
                self._starting.discard(key)
            else:
                starting.append(key)
        return starting

    def _restart(self, keys: list[Key], end: int | None) -> None:
        for key in keys:
            self._inits[key] += 1
            sequence = self._sequences.get(key)
            if sequence is None:
                continue
            if self._inits[key] == 1:
                sequence.generation = -1
            self._close(sequence, end)
            sequence.restart(self._inits[key] - 1)

    def _close(self, sequence: Sequence, end: int | None) -> None:
        sequence.drain(self._block, self._recent)
        sequence.forget_chunks(end)
        table = sequence.table(self._path, self._place, self._calls)
        if table is not None:
            self._tables.append(table)

    def _drop(self, _: Symbol) -> None:
        self.lost += 1

    def _after_head(self, head: bytes) -> _After:
        match = _HEAD(head)
        if match is None:
            return self._nowhere
        host = self._known_host(match[1])
        key = (host, match[2], match[3], match[4])
        after = self._after.get(key)
        if after is None:
            after = _After(self, (host, match[2]), int(match[3]), match[4])
            self._after[key] = after
        return after

    def _known_host(self, host: bytes) -> bytes:
        """The host without a pointer glued in front of it: `0x7f00node-1` is `node-1` once that has been seen."""
        if host in self._hosts:
            return host
        if host.startswith(b"0x"):
            for known in sorted(self._hosts, key=len, reverse=True):
                if known and host.endswith(known):
                    return known
        if len(self._hosts) < _MOST_HOSTS:
            self._hosts.add(host)
        return host

    def _finish_chunk(self, size: int, lines: int) -> None:
        framed = self._now[0]
        self._line += framed.count(b"\n") - 1 if self._uneven else lines
        self._offset += size
        if len(self._recent) >= _CHUNKS_A_BLOCK:
            for sequence in self._sequences.values():
                sequence.drain(self._block, self._recent)
            self._recent = []
            self._block = self._offset
        if not self._apart and self.records - self._settled > _SETTLING:
            self._apart = self._misses * 4 > self.records - self._settled
            self._settled, self._misses = self.records, 0
