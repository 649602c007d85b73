"""Reads nccldoctor's own notes (`"nccldoctor": "snapshot"`): how ranks ended, what the watchdog saw, environments."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from nccldoctor.model.digest import Coverage, Digest
from nccldoctor.model.event import Event
from nccldoctor.model.events.machine import LockedMemoryLimit, SharedMemory, Xid
from nccldoctor.model.events.torch import ProcessEnded, Stack, StackFrame
from nccldoctor.model.events.watched import (
    HangObserved,
    Instrumented,
    Interrupted,
    LeverTried,
    ProcessEnvironment,
)
from nccldoctor.model.source import Line, Source, Speaker
from nccldoctor.parse import bandwidth, smi

SCHEMA = 1


def read(source: Source, data: bytes) -> Digest:
    """The events of one snapshot; sections that are not understood are left out, and the note says so."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        return Digest(replace(source, note=f"a snapshot that is no JSON: {str(error)[:80]}"))
    if not isinstance(body, dict):
        return Digest(replace(source, note="a snapshot that is no JSON object"))
    note = ""
    if body.get("schema") != SCHEMA:
        note = f"written by another version of nccldoctor (schema {str(body.get('schema'))[:20]})"
    events: list[Event] = []
    for name, section in _SECTIONS.items():
        if not body.get(name):
            continue
        try:
            events += section(source, body, body[name])
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
            note = note or f"section {name} is not understood"
    lines = data.count(b"\n")
    return Digest(replace(source, lines=lines, note=note), tuple(events), (), Coverage(lines=lines))


def _line(source: Source, text: str) -> Line:
    return Line(source.path, 0, text[:2000])


def _exits(source: Source, body: Mapping[str, Any], section: Any) -> Iterable[Event]:
    for entry in section:
        rank, code = _number(entry.get("rank")), int(entry["exit_code"])
        who = f"rank {rank}" if rank is not None else f"process {entry.get('pid')}"
        first = bool(entry.get("first"))
        text = f"{who} ended with {_code(code)}{', the first failure' if first else ''}"
        host, pid = _host(entry, body), _number(entry.get("pid"))
        local = _number(entry.get("local_rank"))
        yield ProcessEnded(
            line=_line(source, text),
            speaker=Speaker(host=host, pid=pid, rank=rank, local_rank=local),
            exit_code=code,
            ended_rank=rank,
            ended_local_rank=local,
            ended_pid=pid,
            ended_host=host,
            first=first,
            by_launcher=bool(entry.get("by_launcher")),
        )


def _hang(source: Source, body: Mapping[str, Any], section: Any) -> Iterable[Event]:
    ranks = tuple(sorted(int(r) for r in section.get("behind", ())))
    yield HangObserved(
        line=_line(source, str(section.get("sentence", ""))),
        state=str(section["state"]),
        quiet_seconds=float(section["quiet_seconds"]),
        behind=ranks,
        ended_job=bool(section.get("ended_job")),
    )


def _environments(source: Source, body: Mapping[str, Any], section: Any) -> Iterable[Event]:
    for entry in section:
        variables = {str(k): str(v) for k, v in sorted(entry["variables"].items())}
        rank = _number(entry.get("rank"))
        yield ProcessEnvironment(
            line=_line(source, f"environment of rank {rank}"),
            speaker=Speaker(host=_host(entry, body), pid=_number(entry.get("pid")), rank=rank),
            variables=variables,
        )


def _stacks(source: Source, body: Mapping[str, Any], section: Any) -> Iterable[Event]:
    for entry in section:
        frames = tuple(
            StackFrame(function=str(f["name"]), file=str(f["filename"]), line=int(f["line"] or 0))
            for f in entry["frames"]
        )
        if not frames:
            continue
        top = frames[0]
        rank = _number(entry.get("rank"))
        yield Stack(
            line=_line(source, f"rank {rank} in {top.function} ({top.file}:{top.line})"),
            speaker=Speaker(host=_host(entry, body), pid=_number(entry.get("pid")), rank=rank),
            frames=frames,
            origin=str(entry.get("origin", "py-spy")),
            thread=_text(entry.get("thread")),
        )


def _xids(source: Source, body: Mapping[str, Any], section: Any) -> Iterable[Event]:
    host = _text(body.get("host"))
    for entry in section:
        yield Xid(
            line=_line(source, str(entry["text"])),
            speaker=Speaker(host=host),
            number=int(entry["number"]),
            bus_id=str(entry.get("bus_id", "")),
            text=str(entry["text"])[:2000],
        )


def _host_state(source: Source, body: Mapping[str, Any], section: Any) -> Iterable[Event]:
    host = _text(body.get("host"))
    if shared := section.get("shared_memory"):
        size, free = int(shared["size_bytes"]), int(shared["free_bytes"])
        yield SharedMemory(
            line=_line(source, f"/dev/shm: {size} bytes, {free} free"),
            speaker=Speaker(host=host),
            size_bytes=size,
            free_bytes=free,
        )
    for process in section.get("processes") or ():
        limit = (process.get("limits") or {}).get("memlock")
        if limit is not None:
            pid = _number(process.get("pid"))
            yield LockedMemoryLimit(
                line=_line(source, f"process {pid}: Max locked memory {limit}"),
                speaker=Speaker(host=host, pid=pid),
                limit_bytes=None if limit == "unlimited" else int(limit),
            )


def _instrumented(source: Source, body: Mapping[str, Any], section: Any) -> Iterable[Event]:
    yield Instrumented(
        line=_line(source, "nccldoctor set " + " ".join(sorted(section))),
        speaker=Speaker(host=_text(body.get("host"))),
        variables={str(k): str(v) for k, v in sorted(section.items())},
    )


def _stopped(source: Source, body: Mapping[str, Any], section: Any) -> Iterable[Event]:
    """Other reasons than a signal are the watchdog's own, and told by its section."""
    if str(section).startswith("SIG") and not body.get("hang"):
        yield Interrupted(
            line=_line(
                source, f"{section} ended the job, which the watchdog had not taken for hung"
            ),
            speaker=Speaker(host=_text(body.get("host"))),
            signal=str(section)[:20],
        )


def _fallback(source: Source, body: Mapping[str, Any], section: Any) -> Iterable[Event]:
    for entry in section:
        variables = {str(k): str(v) for k, v in sorted(entry["variables"].items())}
        code = int(entry["exit_code"])
        words = " ".join(f"{k}={v}" for k, v in variables.items())
        yield LeverTried(
            line=_line(source, f"run again with {words}: exit code {code}"),
            speaker=Speaker(host=_text(body.get("host"))),
            name=str(entry["lever"]),
            exit_code=code,
            variables=variables,
            layer=_text(entry.get("layer")) or "",
            cost=_text(entry.get("cost")) or "",
        )


_SECTIONS: Mapping[str, Callable[[Source, Mapping[str, Any], Any], Iterable[Event]]] = {
    "instrumented": _instrumented,
    "environments": _environments,
    "hang": _hang,
    "host_state": _host_state,
    "stacks": _stacks,
    "xids": _xids,
    "exits": _exits,
    "fallback": _fallback,
    "stopped_by": _stopped,
    "gpus": smi.gpus,
    "matrix": smi.matrix,
    "probe": bandwidth.probe,
}


def _host(entry: Mapping[str, Any], body: Mapping[str, Any]) -> str | None:
    return _text(entry.get("host") or body.get("host"))


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)[:256]


def _code(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
