"""Answers of NCCL's RAS, text and JSON, several in one file, and the events of its monitor."""

import re
from dataclasses import replace
from datetime import datetime, timezone

from nccldoctor.model.digest import Coverage, Digest
from nccldoctor.model.event import Event
from nccldoctor.model.events.ras import RasPeer, RasSnapshot
from nccldoctor.model.source import Line, Source, Speaker
from nccldoctor.parse.ras_json import read_object
from nccldoctor.parse.ras_text import read_answer

LARGEST = 1 << 28

_START = re.compile(r"^(?:NCCL|RCCL) version (?P<version>\S+)")
_EVENT = re.compile(
    r"^\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\] (?P<event>PEER_[A-Z_]+):"
    r"(?: Process (?P<pid>\d+) on node (?P<host>\S+))?"
)


def read(source: Source, data: bytes) -> Digest:
    """The digest of a file of RAS answers, in their order; lines that belong to no answer are passed over."""
    if len(data) > LARGEST:
        return Digest(replace(source, note=f"{len(data):,} bytes are too many for RAS answers"))
    lines = data.decode("utf-8", "replace").splitlines()
    events: list[Event] = []
    number = 0
    while number < len(lines):
        text = lines[number]
        if text.lstrip().startswith("{"):
            found, number = read_object(source.path, lines, number)
            events += found
        elif start := _START.match(text):
            end = next((i for i in range(number + 1, len(lines)) if _ends(lines[i])), len(lines))
            events.append(_snapshot(source.path, lines, number, end, start["version"]))
            number = end
        else:
            if event := _EVENT.match(text):
                events.append(_peer(source.path, text, number, event))
            number += 1
    note = source.note if events else "no RAS answer in it"
    return Digest(replace(source, lines=len(lines), note=note), tuple(events), coverage=Coverage())


def _ends(text: str) -> bool:
    return bool(
        _START.match(text)
        or text.startswith(("SERVER PROTOCOL", "{"))
        or (text.startswith("[") and _EVENT.match(text))
    )


def _snapshot(file: str, lines: list[str], start: int, end: int, version: str) -> RasSnapshot:
    groups, communicators, timeouts = read_answer(file, lines, start, end)
    return RasSnapshot(
        line=Line(file, start + 1, lines[start][:2000]),
        nccl_version=version,
        communicators=communicators,
        collection_timeouts=timeouts,
        groups=groups,
    )


def _peer(file: str, text: str, number: int, match: re.Match[str]) -> RasPeer:
    time = datetime.strptime(match["time"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
    return RasPeer(
        line=Line(file, number + 1, text[:2000]),
        speaker=Speaker(time=time),
        event=match["event"],
        peer_host=match["host"],
        peer_pid=int(match["pid"]) if match["pid"] else None,
    )
