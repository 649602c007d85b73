"""Where threads stand: py-spy's text and JSON, and the lines of faulthandler and traceback blocks."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nccldoctor.model.digest import Coverage, Digest
from nccldoctor.model.events.torch import Stack, StackFrame
from nccldoctor.model.source import NOBODY, Line, Source, Speaker
from nccldoctor.parse.recorder import rank_of

MOST_FRAMES = 200

_PROCESS = re.compile(r"^Process (?P<pid>\d+): ")
_THREAD = re.compile(
    r'^\s*Thread (?P<id>0x[0-9A-Fa-f]+|\d+) \((?P<state>[a-z+]{1,20})\)(?:: "(?P<name>[^"]*)")?'
)
_FRAME = re.compile(r"^\s+(?P<function>\S.*?) \((?P<file>[^()]+?)(?::(?P<line>\d+))?\)\s*$")
_FAULT = re.compile(r'^\s*File "(?P<file>[^"\n]*)", line (?P<line>\d+),? in (?P<function>.*)$')


def read(source: Source, data: bytes) -> Digest:
    """The digest of a file of py-spy dumps, text or JSON, of one process or several."""
    text = data.decode("utf-8", "replace")
    if text.lstrip().startswith("["):
        stacks = list(_json(source.path, text))
    else:
        stacks = list(py_spy(source.path, text.splitlines()))
    note = source.note if stacks else "no stack in it"
    lines = text.count("\n")
    return Digest(replace(source, lines=lines, note=note), tuple(stacks), coverage=Coverage())


def py_spy(file: str, lines: list[str], first_number: int = 1) -> Iterator[Stack]:
    """The stacks in lines of py-spy's text, which may hold several processes; `first_number` is the first line's."""
    speaker, thread, frames = NOBODY, "", list[StackFrame]()
    start = Line(file, first_number, "")
    for number, text in enumerate(lines, first_number):
        if process := _PROCESS.match(text):
            yield from _stack(start, speaker, thread, frames)
            frames = []
            speaker = Speaker(pid=int(process["pid"]), rank=_rank(file))
        elif found := _THREAD.match(text):
            yield from _stack(start, speaker, thread, frames)
            frames, start = [], Line(file, number, text[:2000])
            thread = found["name"] or found["id"]
        elif (frame := _FRAME.match(text)) and len(frames) < MOST_FRAMES:
            frames.append(
                StackFrame(
                    function=frame["function"], file=frame["file"], line=int(frame["line"] or 0)
                )
            )
    yield from _stack(start, speaker, thread, frames)


def fault_frame(text: str) -> StackFrame | None:
    """The frame in a line of faulthandler (`line 7 in f`) or of a traceback (`line 7, in f`)."""
    frame = _FAULT.match(text)
    if frame is None:
        return None
    return StackFrame(
        function=frame["function"].strip(), file=frame["file"], line=int(frame["line"])
    )


def _rank(file: str) -> int | None:
    return rank_of(file) if re.search(r"rank[_\-.]?\d", file.rsplit("/", 1)[-1]) else None


def _stack(line: Line, speaker: Speaker, thread: str, frames: list[StackFrame]) -> Iterator[Stack]:
    if frames:
        yield Stack(
            line=line, speaker=speaker, frames=tuple(frames), origin="py-spy", thread=thread or None
        )


def _json(file: str, text: str) -> Iterator[Stack]:
    try:
        threads = json.loads(text)
    except (ValueError, RecursionError):
        return
    for thread in threads if isinstance(threads, list) else ():
        try:
            yield from _json_thread(file, thread)
        except (TypeError, ValueError, KeyError, AttributeError):
            continue


def _json_thread(file: str, thread: Any) -> Iterator[Stack]:
    name = str(thread.get("thread_name") or thread.get("thread_id") or "")
    frames = [
        StackFrame(
            function=str(f.get("name", "")),
            file=str(f.get("filename", "")),
            line=int(f.get("line") or 0),
        )
        for f in thread["frames"][:MOST_FRAMES]
    ]
    pid = thread.get("pid")
    speaker = Speaker(pid=int(pid) if pid else None, rank=_rank(file))
    yield from _stack(Line(file, 0, name[:200]), speaker, name, frames)
