"""Text into events: prefixes off, records split, messages matched, blocks collected, calls tabled."""

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import BinaryIO

from nccldoctor.model.calls import Call, CallTable
from nccldoctor.model.digest import Coverage, Digest, Unknown
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import CommStart, Noise
from nccldoctor.model.events.torch import BackendError
from nccldoctor.model.events.trouble import Warned
from nccldoctor.model.source import Line, Source, Speaker
from nccldoctor.parse import patterns
from nccldoctor.parse.blocks import Blocks
from nccldoctor.parse.header import CLUE, Record, split_records
from nccldoctor.parse.pattern import Matcher

LONGEST_LINE = 1 << 20
KEPT_TEXT = 2000
MOST_UNKNOWN = 200

_RANK = re.compile(r"^\[rank(\d+)\]: ?")
_LOCAL = re.compile(r"^\[[a-z_]+(\d+)\]: ?")
_C10 = re.compile(r"^\[[IWEF]\d*(?: [\d:.]+)? [\w./]+:\d+\] ?")
_CALL = re.compile(
    r"^(\w+): opCount ([0-9a-f]+) sendbuff \S+ recvbuff \S+ count (\d+) datatype (\d+) op (\d+) root (-?\d+) "
    r"comm (\S+) \[nranks=(\d+)\]"
)
DATATYPES = [
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
]
REDOPS = ["sum", "prod", "max", "min", "avg"]


@cache
def _nccl() -> Matcher:
    return Matcher(patterns.NCCL)


@cache
def _text() -> Matcher:
    return Matcher(patterns.TEXT)


def read(source: Source, stream: BinaryIO) -> Digest:
    """The digest of a text file; the stream is read once, by lines of at most 1 MiB."""
    return _Reader(source).read(stream)


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._events: list[Event] = []
        self._blocks = Blocks()
        self._calls: dict[tuple[str, int, str], list[tuple[Call, int, str, int]]] = {}
        self._meta: dict[tuple[str, int, str], tuple[int | None, int]] = {}
        self._generation: Counter[tuple[str, int, str]] = Counter()
        self._done: list[CallTable] = []
        self._records = self._understood = self._lines = 0
        self._unknown: dict[str, Unknown] = {}
        self._last_error: dict[str, int] = {}

    def read(self, stream: BinaryIO) -> Digest:
        while raw := stream.readline(LONGEST_LINE):
            self._lines += 1
            for part in raw.decode("utf-8", "replace").rstrip("\r\n").split("\r"):
                self._line(part)
        self._events += self._blocks.finish()
        for key in list(self._calls):
            self._close(key)
        return Digest(
            replace(self._source, lines=self._lines),
            tuple(self._events),
            tuple(self._done),
            Coverage(self._lines, self._records, self._understood, tuple(self._unknown.values())),
        )

    def _line(self, text: str) -> None:
        line = Line(self._source.path, self._lines, text[:KEPT_TEXT])
        rest, speaker = _strip(text)
        records = split_records(rest, speaker) if CLUE in rest or "ERROR]" in rest else []
        if records:
            for record in records:
                self._record(record, line)
            return
        key = f"{speaker.rank}/{speaker.local_rank}"
        self._text_line(key, rest, line, speaker)

    def _text_line(self, key: str, text: str, line: Line, speaker: Speaker) -> None:
        if event := _text().match(text, line, speaker):
            self._keep(event)
            if isinstance(event, BackendError):
                self._last_error[key] = 3
        elif self._last_error.get(key, 0) > 0:
            self._last_error[key] -= 1
            if event := _nccl().match(text, line, speaker):
                self._keep(event)
        for event in self._blocks.feed(key, _C10.sub("", text), line, speaker):
            self._keep(event)

    def _record(self, record: Record, line: Line) -> None:
        self._records += 1
        if " opCount " in record.message and self._call(record, line):
            self._understood += 1
            return
        event = _nccl().match(record.message, line, record.speaker)
        if event is not None:
            self._understood += 1
            if isinstance(event, CommStart):
                self._new_generation(event)
            self._keep(event)
            return
        if record.level in ("WARN", "ATTN", "ERROR"):
            self._understood += 1
            self._keep(
                Warned(
                    line=line,
                    speaker=record.speaker,
                    message=record.message,
                    level=record.level,
                    place=record.place,
                )
            )
            return
        self._not_understood(record.message, line)

    def _keep(self, event: Event) -> None:
        if not isinstance(event, Noise):
            self._events.append(event)

    def _not_understood(self, message: str, line: Line) -> None:
        shape = re.sub(r"\d+", "N", re.sub(r"0x[0-9a-f]+", "0xH", message))[:160]
        known = self._unknown.get(shape)
        if known is not None:
            self._unknown[shape] = replace(known, count=known.count + 1)
        elif len(self._unknown) < MOST_UNKNOWN:
            self._unknown[shape] = Unknown(shape, 1, line)

    def _call(self, record: Record, line: Line) -> bool:
        match = _CALL.match(record.message)
        if match is None:
            return False
        op, op_count, count, datatype, redop, root, comm, nranks = match.groups()
        call = Call(op, int(count), _name(DATATYPES, datatype), _name(REDOPS, redop), int(root))
        speaker = record.speaker
        key = (speaker.host or "", speaker.pid or 0, comm)
        self._calls.setdefault(key, []).append((call, line.number, line.text, int(op_count, 16)))
        self._meta[key] = (speaker.device, int(nranks))
        return True

    def _new_generation(self, event: CommStart) -> None:
        key = (event.speaker.host or "", event.speaker.pid or 0, event.comm)
        if key in self._calls:
            self._close(key)
            self._generation[key] += 1

    def _close(self, key: tuple[str, int, str]) -> None:
        calls = self._calls.pop(key)
        device, nranks = self._meta[key]
        collectives = [c for c in calls if c[0].op not in ("Send", "Recv")]
        peers = Counter((c[0].op, c[0].root or 0) for c in calls if c[0].op in ("Send", "Recv"))
        last = collectives[-1] if collectives else None
        self._done.append(
            CallTable(
                file=self._source.path,
                host=key[0],
                pid=key[1],
                device=device,
                comm=key[2],
                generation=self._generation[key],
                nranks=nranks,
                count=len(collectives),
                tail=tuple(c[0] for c in collectives),
                last=last[0] if last else None,
                last_line=last[1] if last else 0,
                last_text=last[2] if last else "",
                last_op_count=last[3] if last else None,
                mix=dict(Counter(c[0] for c in collectives)),
                peers=dict(peers),
            )
        )


def _strip(text: str) -> tuple[str, Speaker]:
    """The line without the prefixes of launchers and PyTorch, and what these told."""
    rank = local_rank = None
    while True:
        if match := _RANK.match(text):
            rank = int(match[1])
        elif match := _LOCAL.match(text):
            local_rank = int(match[1])
        else:
            return text, Speaker(rank=rank, local_rank=local_rank)
        text = text[match.end() :]


def _name(names: list[str], index: str) -> str:
    number = int(index)
    return names[number] if number < len(names) else f"#{number}"
