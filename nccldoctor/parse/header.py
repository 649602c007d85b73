"""The header of an NCCL or RCCL record, found anywhere in a line, in the forms of 2.0 to 2.32."""

import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone

from nccldoctor.model.source import Speaker

# Every part is bounded: a stranger's line of a megabyte must not be searched from each of its letters to its end.
HEADER = re.compile(
    r"""(?:\[(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?)\]\s?)?
    (?P<host>[A-Za-z0-9<][\w.\-<>]{0,80})?:(?P<pid>\d{1,10}):(?P<tid>\d{1,10})\s
    (?:\[(?P<device>-?\d{1,10})\]\s)?
    (?:\d{1,12}\.\d{1,9}\s[\w:~<>]{1,120}:\d{1,6}\s
      |(?P<place>[^\s:]{1,250}:\d{1,6})\s(?:\((?P<function>[^)\n]{0,80})\)\s)?)?
    (?:NCCL\s(?P<level>INFO|WARN|ATTN|TRACE|CALL|ABORT)(?:\s|$)|\[FATAL\sERROR\]:?\s|(?P<bare>INFO|WARN)\s)""",
    re.X,
)

MOST_HOSTS = 4096
_SAFE_HOST = re.compile(
    r"(?:^|[\s\]>:])([A-Za-z0-9<][\w.\-<>]{0,80}):\d{1,10}:\d{1,10} (?:\[-?\d{1,10}\]|NCCL) ", re.M
)
_FATAL = "[FATAL ERROR]"
CLUE = " NCCL "
"""Every header but RCCL's FATAL ERROR and those before 2.3 hold this; looking for it first is what makes reading fast."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record: who wrote it, at which level, where in the library's source, and the message."""

    speaker: Speaker
    level: str
    message: str
    place: str | None = None


def split_records(text: str, speaker: Speaker, hosts: set[str] | None = None) -> list[Record]:
    """The records in one physical line; writers that share a stream glue several together.

    `speaker` is what the line's prefixes told. `hosts` are those seen so far, and grow: only they can tell where a
    message ends and the host glued to it begins. An empty list means that no header is in the line.
    """
    first = HEADER.match(text)
    if (
        first is not None
        and first["bare"] is None
        and CLUE not in text[first.end() :]
        and _FATAL not in text
    ):
        if hosts is not None and len(hosts) < MOST_HOSTS:
            hosts.add(first["host"] or "")
        return [_record(first, first["host"] or "", text[first.end() :].rstrip("\r\n"), speaker)]
    matches = [m for m in HEADER.finditer(text) if m["bare"] is None or _is_bare(m)]
    starts = [_start(match, hosts or set()) for match in matches]
    ends = [*(start for start, _ in starts[1:]), len(text)][: len(starts)]
    return [
        _record(match, host, text[match.end() : end].rstrip("\r\n"), speaker)
        for match, (_, host), end in zip(matches, starts, ends, strict=True)
    ]


def may_hold_record(text: str) -> bool:
    """Whether a search for headers is worth it."""
    return CLUE in text or "ERROR]" in text or "] INFO " in text or " WARN " in text


def _is_bare(match: re.Match[str]) -> bool:
    """NCCL 2.0 to 2.2 wrote INFO and WARN without `NCCL`; a time like `10:11:12 INFO` only looks like that."""
    host = match["host"] or ""
    return match["device"] is not None and not host[:1].isdigit() and len(host) > 1


def hosts_in(text: str) -> set[str]:
    """The hosts of the headers in a text, without those that are a message's last word glued to another host."""
    counts = Counter(_SAFE_HOST.findall(text))
    return {
        host
        for host, count in counts.items()
        if not any(o != host and host.endswith(o) and n >= count for o, n in counts.items())
    }


def _start(match: re.Match[str], hosts: set[str]) -> tuple[int, str]:
    """Where the record begins, and its host: a known one if the name is longer than that and glued to a message."""
    host = match["host"] or ""
    if host not in hosts and match.start() > 0:
        known = max((name for name in hosts if host.endswith(name)), key=len, default="")
        if known:
            return match.start("host") + len(host) - len(known), known
    return match.start(), host


def _record(match: re.Match[str], host: str, message: str, speaker: Speaker) -> Record:
    device = match["device"]
    place = match["place"]
    if place and match["function"]:
        place = f"{place} ({match['function']})"
    return Record(
        speaker=Speaker(
            host,
            int(match["pid"]),
            int(match["tid"]),
            _device(device),
            speaker.rank,
            speaker.local_rank,
            _time(match["time"]) or speaker.time,
        ),
        level=match["level"] or match["bare"] or "ERROR",
        message=message,
        place=place,
    )


def _device(text: str | None) -> int | None:
    """Before the thread has a device NCCL prints what lies in memory: no machine has so many."""
    return int(text) if text is not None and len(text) <= 4 else None


def _time(text: str | None) -> datetime | None:
    """NCCL stamps local time without a zone; it is read as UTC, so only differences on one host mean anything."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text.replace(" ", "T")).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
