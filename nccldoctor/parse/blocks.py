"""Blocks of several lines inside a rank's output: tracebacks, stacks, NCCL's last error, the elastic agent's table."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from nccldoctor.model.event import Event
from nccldoctor.model.events.torch import ProcessEnded, PythonException, Stack, StackFrame
from nccldoctor.model.source import Line, Speaker

_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]*)", line (?P<line>\d{1,9}),? in (?P<function>.*)$')
_WATCHDOG_FRAME = re.compile(r"^#\d{1,9} (?P<function>\S+) from (?P<file>.*):(?P<line>\d{1,9})\s*$")
_EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: ?(?P<message>.*))?$")
_THREAD = re.compile(
    r"^(?:(?:Current thread|Thread) (?P<thread>0x[0-9a-f]+) \[?.{0,80}?|Stack )\(most recent call first\):"
)
_FIELD = re.compile(r"^\s+(?P<name>time|host|rank|exitcode)\s+: (?P<value>.*)$")
_FAILED = re.compile(
    r"failed \(exitcode: (?P<code>-?\d{1,9})\) local_rank: (?P<local>\d{1,9}) \(pid: (?P<pid>\d{1,9})\)"
)


@dataclass
class _Open:
    """The block that a stream is in the middle of."""

    kind: str
    line: Line
    speaker: Speaker
    frames: list[StackFrame] = field(default_factory=list)
    thread: str | None = None
    values: dict[str, str] = field(default_factory=dict)
    first: bool = False


class Blocks:
    """Collects the blocks of each stream of a file; `key` tells interleaved streams apart."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._root_cause: dict[str, bool] = {}

    @property
    def open(self) -> bool:
        """Whether any stream is in the middle of a block."""
        return bool(self._open)

    @staticmethod
    def may_start(text: str) -> bool:
        """Whether a line like this means something inside or after some block, though not here."""
        return (
            _FIELD.match(text) is not None
            or "(first observed failure)" in text
            or "Failures:" in text
        )

    def feed(self, key: str, text: str, line: Line, speaker: Speaker) -> Iterator[Event]:
        """Events completed by this line."""
        block = self._open.get(key)
        if block is not None:
            done, consumed = self._continue(block, text)
            if done:
                del self._open[key]
                yield from _event(block, text if consumed else None, line)
            if consumed or not done:
                return
        yield from self._start(key, text, line, speaker)

    def finish(self) -> Iterator[Event]:
        """Events of the blocks that the end of the file cuts."""
        for block in self._open.values():
            yield from _event(block, None, block.line)
        self._open.clear()

    def _start(self, key: str, text: str, line: Line, speaker: Speaker) -> Iterator[Event]:
        if text.startswith("Traceback (most recent call last)"):
            self._open[key] = _Open("traceback", line, speaker)
        elif thread := _THREAD.match(text):
            self._open[key] = _Open("faulthandler", line, speaker, thread=thread["thread"])
        elif text.rstrip().endswith("Stack trace of the failed collective:"):
            self._open[key] = _Open("watchdog", line, speaker)
        elif text.startswith("Root Cause (first observed failure)"):
            self._root_cause[key] = True
        elif text.startswith("Failures:"):
            self._root_cause[key] = False
        elif failed := _FAILED.search(text):
            yield ProcessEnded(
                line=line,
                speaker=speaker,
                exit_code=int(failed["code"]),
                ended_local_rank=int(failed["local"]),
                ended_pid=int(failed["pid"]),
            )
        elif (
            (entry := _FIELD.match(text))
            and key in self._root_cause
            and entry["name"]
            in (
                "time",
                "host",
            )
        ):
            self._open[key] = _Open("agent", line, speaker, first=self._root_cause[key])
            self._open[key].values[entry["name"]] = entry["value"].strip()

    @staticmethod
    def _continue(block: _Open, text: str) -> tuple[bool, bool]:
        """(is the block over, is this line its own)."""
        if block.kind == "agent":
            entry = _FIELD.match(text)
            if entry is None:
                return True, False
            block.values[entry["name"]] = entry["value"].strip()
            return entry["name"] == "exitcode", entry["name"] == "exitcode"
        frame = (_WATCHDOG_FRAME if block.kind == "watchdog" else _FRAME).match(text)
        if frame is not None:
            block.frames.append(
                StackFrame(
                    function=frame["function"].strip(), file=frame["file"], line=int(frame["line"])
                )
            )
            return False, True
        if block.kind == "traceback":
            if text.startswith((" ", "\t")) or not text.strip():
                return False, True
            return True, _EXCEPTION.match(text) is not None
        return True, False


def _event(block: _Open, last: str | None, line: Line) -> Iterator[Event]:
    if block.kind == "agent":
        yield from _ended(block)
    elif block.kind == "traceback":
        match = _EXCEPTION.match(last) if last is not None else None
        if match is not None:
            frames = tuple(reversed(block.frames))
            yield PythonException(
                line=line,
                speaker=block.speaker,
                type=match["type"],
                message=(match["message"] or "")[:1000],
                frames=frames,
            )
    elif block.frames:
        yield Stack(
            line=block.line,
            speaker=block.speaker,
            frames=tuple(block.frames),
            origin=block.kind,
            thread=block.thread,
        )


def _ended(block: _Open) -> Iterator[Event]:
    code = re.match(r"(-?\d{1,9})(?:\s+\(pid: (\d{1,9})\))?", block.values.get("exitcode", ""))
    rank = re.match(r"(\d{1,9}) \(local_rank: (\d{1,9})\)", block.values.get("rank", ""))
    if code is None or rank is None:
        return
    exit_code = int(code[1])
    yield ProcessEnded(
        line=block.line,
        speaker=block.speaker,
        exit_code=exit_code,
        ended_rank=int(rank[1]),
        ended_local_rank=int(rank[2]),
        ended_pid=int(code[2]) if code[2] else None,
        ended_host=block.values.get("host"),
        ended_at=block.values.get("time"),
        first=block.first,
        by_launcher=exit_code == -15 and not block.first,
    )
