"""The header of an NCCL or RCCL record, found anywhere in a line, in the forms of 2.3 to 2.32."""

import re
from dataclasses import dataclass
from datetime import datetime, timezone

from nccldoctor.model.source import Speaker

HEADER = re.compile(
    r"""(?:\[(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?)\]\s?)?
    (?P<host>[A-Za-z0-9<][\w.\-<>]*)?:(?P<pid>\d+):(?P<tid>\d+)\s
    (?:\[(?P<device>-?\d+)\]\s)?
    (?:\d+\.\d+\s[\w:~<>]+:\d+\s
      |(?P<place>[^\s:]+:\d+)\s(?:\((?P<function>[^)\n]{0,80})\)\s)?)?
    (?:NCCL\s(?P<level>INFO|WARN|ATTN|TRACE|CALL|ABORT)(?:\s|$)|\[FATAL\sERROR\]:?\s)""",
    re.X,
)

_FATAL = "[FATAL ERROR]"
CLUE = " NCCL "
"""Every header but RCCL's FATAL ERROR holds this; looking for it first is what makes reading fast."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record: who wrote it, at which level, where in the library's source, and the message."""

    speaker: Speaker
    level: str
    message: str
    place: str | None = None


def split_records(text: str, speaker: Speaker) -> list[Record]:
    """The records in one physical line; writers that share a stream glue several together.

    `speaker` is what the line's prefixes told. An empty list means that no header is in the line.
    """
    first = HEADER.match(text)
    if first is not None and CLUE not in text[first.end() :] and _FATAL not in text:
        return [_record(first, text[first.end() :].rstrip("\r\n"), speaker)]
    matches = list(HEADER.finditer(text))
    records = []
    for match, following in zip(matches, [*matches[1:], None], strict=False):
        end = following.start() if following else len(text)
        records.append(_record(match, text[match.end() : end].rstrip("\r\n"), speaker))
    return records


def _record(match: re.Match[str], message: str, speaker: Speaker) -> Record:
    device = match["device"]
    place = match["place"]
    if place and match["function"]:
        place = f"{place} ({match['function']})"
    return Record(
        speaker=Speaker(
            match["host"] or "",
            int(match["pid"]),
            int(match["tid"]),
            int(device) if device is not None else None,
            speaker.rank,
            speaker.local_rank,
            _time(match["time"]) or speaker.time,
        ),
        level=match["level"] or "ERROR",
        message=message,
        place=place,
    )


def _time(text: str | None) -> datetime | None:
    """NCCL stamps local time without a zone; it is read as UTC, so only differences on one host mean anything."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text.replace(" ", "T")).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
