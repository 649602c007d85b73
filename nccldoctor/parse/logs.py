"""Text into events: prefixes off, records split, messages matched, blocks collected, calls tabled."""

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import BinaryIO

from nccldoctor.model.calls import CallTable
from nccldoctor.model.digest import Coverage, Digest, Unknown
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import CommGone, CommStart, Noise
from nccldoctor.model.events.torch import BackendError, RankHeard
from nccldoctor.model.events.trouble import QUOTED, CudaFailure, Warned
from nccldoctor.model.source import ENDS_INSIDE, LACKS_MIDDLE, Line, Source, Speaker
from nccldoctor.parse import patterns
from nccldoctor.parse.bandwidth import Table
from nccldoctor.parse.blocks import Blocks
from nccldoctor.parse.calls import CallReader
from nccldoctor.parse.chunks import chunks
from nccldoctor.parse.folds import Folds
from nccldoctor.parse.header import Record, hosts_in, may_hold_record, split_records
from nccldoctor.parse.hosts import Aliases
from nccldoctor.parse.pattern import Matcher
from nccldoctor.parse.patterns import failures
from nccldoctor.parse.prefixes import Prefixes
from nccldoctor.parse.shapes import BLANK, Shapes, Verdict
from nccldoctor.parse.tasks import Tasks

KEPT_TEXT = 2000
FURTHEST_START = 8192
"""Characters of a line in which a message without its header is looked for."""
MOST_UNKNOWN = 200
MOST_REPEATS = 8
MOST_EVENTS = 100_000
"""Repeats of one message by one process, and events of one file, that are kept; the rest is counted only."""

_TORN_CALL = re.compile(r"\w+: opCount ")
"""A call that `CallReader` could not take: another writer or the end of the process cut it."""
_HEADLESS = re.compile(
    r"(?:^|[\s\]|:])(?:(?P<place>[\w./\-]{1,200}\.(?:cc|cu|c|h|cpp):\d{1,6}) (?:NCCL )?|NCCL )(?:WARN|INFO|ATTN) "
)
_ALONE = re.compile(
    r"(?:[\w/]{1,20} ?: ?)?(?:" + "|".join(map(re.escape, sorted(failures.ALONE))) + ")"
)
_NAMED = re.compile(r"\s*nccl[A-Z]\w{1,30}: ")
"""The second line of PyTorch's exception: the error's name, and what it means in general."""
_LAST_ERROR = "Last error:"
_LAST_WORDS = -1
_NO_WORDS = re.compile(r"Exception raised from |Traceback |\[|frame #|File \"")
_SAYS_HOST = re.compile(
    r"(?:srun: error: (?=\S{1,80}: tasks? \d))?(?P<host>[\w.\-]{1,80}): (?:tasks? [\d,\-]{1,80}: |Test (?:CUDA|NCCL) failure )"
)
"""Slurm's and nccl-tests' words begin with the host."""
_REPEATED = re.compile(r" ?\[repeated \d{1,9}x across cluster\]")
"""What Ray adds to the one of many like lines that it shows."""
_WORLD = re.compile(r"\(default_pg\) Rank (\d{1,7})\]")
_C10 = re.compile(r"^\[[IWEF]\d*(?: [\d:.]+)? [\w./]+:\d+\] ?")


@cache
def _nccl() -> Matcher:
    return Matcher(patterns.NCCL)


@cache
def _text() -> Matcher:
    return Matcher(patterns.TEXT)


def read(source: Source, stream: BinaryIO) -> Digest:
    """The digest of a text file, read once and in order, in bounded memory."""
    return _Reader(source, getattr(stream, "place", None)).read(stream)


class _Reader:
    def __init__(self, source: Source, place: tuple[str, int, int | None] | None) -> None:
        self._source = source
        self._calls = CallReader(source.path, place)
        self._prefixes = Prefixes()
        self._shapes = Shapes((*_text().anchors, *failures.ALONE, "WARN "))
        self._events: list[Event] = []
        self._hosts: set[str] = set()
        self._tasks = Tasks()
        self._aliases = Aliases()
        self._blocks = Blocks()
        self._folds = Folds()
        self._table = Table()
        self._repeats: Counter[int] = Counter()
        self._records = self._understood = self._torn = 0
        self._cut = False
        self._unknown: dict[str, Unknown] = {}
        self._last_error: dict[str, tuple[int, Speaker]] = {}
        self._heard: set[int] = set()

    def read(self, stream: BinaryIO) -> Digest:
        first = True
        for chunk in chunks(stream):
            if first:
                sample = chunk.decode("utf-8", "replace")
                self._prefixes = Prefixes(sample.split("\n")[:400])
                self._hosts = hosts_in(sample)
                first = False
            self._cut = not chunk.endswith(b"\n")
            for index, block in enumerate(self._calls.feed(chunk)):
                self._block(block, index)
        self._events += self._blocks.finish()
        self._events = self._aliases.corrected(self._tasks.corrected(self._events))
        return self._digest(self._calls.lines)

    def _digest(self, lines: int) -> Digest:
        tables: list[CallTable] = self._calls.tables()
        whole = self._calls.records - self._calls.lost
        torn = self._torn + self._calls.lost
        notes = [f"{torn} torn lines"] if torn else []
        if self._calls.holes:
            notes.append(LACKS_MIDDLE)
        if self._cut:
            notes.append(ENDS_INSIDE)
        if len(self._events) >= MOST_EVENTS:
            notes.append(f"only the first {MOST_EVENTS} messages were kept")
        return Digest(
            replace(self._source, lines=lines, note="; ".join(notes)),
            tuple(self._events),
            tuple(tables),
            Coverage(
                lines,
                self._records + whole + torn,
                self._understood + whole + torn,
                tuple(self._unknown.values()),
            ),
        )

    def _block(self, block: bytes, index: int) -> None:
        """Takes consecutive lines; those whose shape says nothing cost a look-up each."""
        number = -1
        known = self._shapes.known
        for place, raw in enumerate(block.split(b"\n")):
            shape = raw.translate(BLANK)
            verdict = known(shape, raw)
            if verdict is Verdict.NOISE:
                self._records += 1
                self._understood += 1
            elif verdict is not Verdict.IGNORED or self._listening():
                if number < 0:
                    number = self._calls.line_of(index)
                self._read(raw, shape, number + place)

    def _listening(self) -> bool:
        """Does an earlier line make any line interesting now?"""
        return self._blocks.open or self._table.open or bool(self._last_error) or self._folds.open

    def _read(self, raw: bytes, shape: bytes, number: int) -> None:
        whole = raw.decode("utf-8", "replace").strip("\r\0")
        try:
            if "\r" in whole:
                for text in whole.split("\r"):
                    self._line(text, number)
                return
            told = self._line(whole, number, shape)
        except ValueError:  # a number of thousands of digits, which Python refuses to read
            self._torn += 1
            return
        if told is None:
            return
        if told[0] is Verdict.TIRED:
            self._shapes.tire(raw)
        else:
            self._shapes.learn(shape, told)

    def _line(self, text: str, number: int, shape: bytes = b"") -> tuple[Verdict, str] | None:
        """Reads one line; says what all lines of its shape are, where that can be said."""
        line = Line(self._source.path, number, text[:KEPT_TEXT])
        rest, speaker = self._prefixes.peel(text)
        if "x across cluster]" in rest and (repeated := _REPEATED.search(rest)):
            if event := _text().match(rest[repeated.start() :], line, speaker):
                self._keep(event, rest)
            text = rest = rest[: repeated.start()]
        records = split_records(rest, speaker, self._hosts) if may_hold_record(rest) else []
        if not records:
            return self._text_line(rest, line, speaker)
        self._folds.drop()
        told = None
        if not text.endswith(rest):
            shape = b""
        for event in self._table.feed(rest, line):
            self._keep(event, rest)
        for record in records:
            self._aliases.spoke(speaker, record.speaker)
            if self._prefixes.by_task:
                self._tasks.spoke(record.speaker)
            told = self._record(record, line, shape)
        return told if len(records) == 1 else None

    def _text_line(self, text: str, line: Line, speaker: Speaker) -> tuple[Verdict, str] | None:
        key = _key(speaker)
        if speaker.rank is None and "(default_pg) Rank " in text:
            speaker = _of_the_world(text, speaker)
        if speaker.host is None and (told_by := _SAYS_HOST.match(text)):
            speaker = replace(speaker, host=told_by["host"])
        boring = not self._blocks.open
        if speaker.rank is not None and speaker.rank not in self._heard:
            self._heard.add(speaker.rank)
            self._keep(RankHeard(line=line, speaker=speaker), "")
        if event := self._folds.go_on(text, self._whole):
            boring = False
            self._keep(event, text)
        elif event := _text().match(text, line, speaker):
            boring = False
            self._folds.drop()
            if not (key in self._last_error and _NAMED.match(text)):
                self._keep(event, text)
            if isinstance(event, BackendError):
                for voice in (speaker, replace(speaker, rank=None, local_rank=None, time=None)):
                    self._last_error[_key(voice)] = 3, speaker
                if event.last_error and (
                    told := self._quoted(event.last_error, line, speaker, whatever=True)
                ):
                    self._keep(told, event.last_error)
                if told := self._headless(text, line, speaker):
                    self._keep(told, text)
        elif event := self._headless(text, line, speaker):
            boring = False
            self._keep(event, text)
        elif key in self._last_error:
            boring = False
            left, author = self._last_error.pop(key)
            if text.strip() == _LAST_ERROR:
                self._last_error[key] = _LAST_WORDS, author
            elif left > 1:
                self._last_error[key] = left - 1, author
            if event := self._quoted(text, line, author, whatever=left == _LAST_WORDS):
                self._keep(event, text)
        elif not self._folds.open:
            self._folds.begin(text, line, speaker)
        for event in self._blocks.feed(key, _C10.sub("", text), line, speaker):
            boring = False
            self._keep(event, text)
        for event in self._table.feed(text, line):
            boring = False
            self._keep(event, text)
        boring = boring and not self._listening() and not self._blocks.may_start(text)
        return (Verdict.IGNORED, "") if boring else None

    def _whole(self, text: str, line: Line, speaker: Speaker) -> Event | None:
        """The event of a message that several lines were put together to."""
        return _text().match(text, line, speaker) or self._headless(text, line, speaker)

    def _quoted(self, text: str, line: Line, speaker: Speaker, whatever: bool) -> Event | None:
        """The event of NCCL's last words below an exception; `whatever` they are, even if no pattern knows them."""
        if event := _nccl().match(text, line, speaker):
            return event
        if not whatever or not text.strip() or _NO_WORDS.match(text.strip()):
            return None
        return Warned(line=line, speaker=speaker, message=text.strip(), level="WARN", place=QUOTED)

    def _headless(self, text: str, line: Line, speaker: Speaker) -> Event | None:
        """The event of a message whose header somebody cut off: `NCCL WARN …` is all that is left."""
        text = text[:FURTHEST_START]
        if start := _HEADLESS.search(text):
            event = _nccl().match(text[start.end() :], line, speaker)
            place = start["place"]
        elif start := _ALONE.search(text):
            event = _nccl().match(text[start.start() :], line, speaker)
            place = None
        else:
            return None
        return None if event is None or isinstance(event, Noise) else _placed(event, place)

    def _record(self, record: Record, line: Line, shape: bytes) -> tuple[Verdict, str] | None:
        if _TORN_CALL.match(record.message):
            self._torn += 1
            return None
        self._records += 1
        found = _nccl().find(record.message, shape)
        if found is not None:
            self._understood += 1
            pattern, match = found
            if pattern.event is Noise:
                return Verdict.NOISE, pattern.anchor
            event = _placed(pattern.build(match, line, record.speaker), record.place)
            return None if self._keep(event, record.message) else (Verdict.TIRED, "")
        if record.level in ("WARN", "ATTN", "ERROR"):
            self._understood += 1
            warned = Warned(
                line=line,
                speaker=record.speaker,
                message=record.message,
                level=record.level,
                place=record.place,
            )
            self._folds.begin(f"NCCL WARN {record.message}", line, record.speaker)
            return None if self._keep(warned, record.message) else (Verdict.TIRED, "")
        if record.level == "TRACE":
            self._understood += 1
            return None
        self._not_understood(record.message, line)
        return None

    def _keep(self, event: Event, message: str) -> bool:
        """Keeps the event, unless its process said the same often enough or the file has too many."""
        if isinstance(event, Noise):
            return True
        if not isinstance(event, CommStart | CommGone):
            speaker = event.speaker
            key = hash((speaker.host, speaker.pid, speaker.rank, speaker.local_rank, message))
            self._repeats[key] += 1
            if self._repeats[key] > MOST_REPEATS or len(self._events) >= MOST_EVENTS:
                return False
            if len(self._repeats) > MOST_EVENTS:
                self._repeats.clear()
        if self._prefixes.by_task:
            self._tasks.told(len(self._events))
        self._events.append(event)
        return True

    def _not_understood(self, message: str, line: Line) -> None:
        shape = re.sub(r"\d+", "N", re.sub(r"0x[0-9a-f]+", "0xH", message))[:160]
        known = self._unknown.get(shape)
        if known is not None:
            self._unknown[shape] = replace(known, count=known.count + 1)
        elif len(self._unknown) < MOST_UNKNOWN:
            self._unknown[shape] = Unknown(shape, 1, line)


def _key(speaker: Speaker) -> str:
    return f"{speaker.host}/{speaker.pid}/{speaker.rank}/{speaker.local_rank}"


def _placed(event: Event, place: str | None) -> Event:
    """The event, with the place in the library where that says what the message does not."""
    return replace(event, place=place) if place and isinstance(event, CudaFailure) else event


def _of_the_world(text: str, speaker: Speaker) -> Speaker:
    """The speaker with the rank in the default group, which is the global one."""
    match = _WORLD.search(text)
    return replace(speaker, rank=int(match[1])) if match else speaker
