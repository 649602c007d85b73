"""RAS's JSON: a status report or a monitor's event, also where NCCL forgets a comma."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from nccldoctor.model.event import Event
from nccldoctor.model.events.ras import RasComm, RasMissing, RasPeer, RasRank, RasSnapshot
from nccldoctor.model.source import Line, Speaker

_FORGOTTEN = re.compile(r'("nvml_dev": -?\d+)(\s*\n\s*"status")')
"""NCCL 2.28 writes no comma here in `missing_ranks`."""


def read_object(file: str, lines: Sequence[str], start: int) -> tuple[list[Event], int]:
    """The events of the object that begins at index `start`, and the index of the first line after it."""
    end = _last_line(lines, start)
    text, forgotten = _FORGOTTEN.subn(r"\1,\2", "\n".join(lines[start:end]))
    try:
        value, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return [], end
    if not isinstance(value, dict):
        return [], end
    line = Line(file, start + 1, lines[start][:2000])
    try:
        if "communicators" in value:
            return [replace(_snapshot(value, line, lines, start, end), mended=forgotten > 0)], end
        if "event" in value:
            return [_event(value, line)], end
    except (TypeError, ValueError, KeyError, AttributeError):
        return [], end
    return [], end


def _last_line(lines: Sequence[str], start: int) -> int:
    """The index after the line that closes the object; braces inside strings do not occur in RAS's own text."""
    depth = 0
    for number in range(start, len(lines)):
        depth += lines[number].count("{") - lines[number].count("}")
        if depth <= 0:
            return number + 1
    return len(lines)


def _snapshot(
    value: Mapping[str, Any], line: Line, lines: Sequence[str], start: int, end: int
) -> RasSnapshot:
    hashes = {
        match[1]: Line(line.file, number + 1, lines[number][:2000])
        for number in range(start, end)
        if (match := re.search(r'"hash": ?"([^"]+)"', lines[number]))
    }
    return RasSnapshot(
        line=line,
        speaker=Speaker(time=_time(value.get("timestamp"))),
        nccl_version=str(value["nccl_version"]) if "nccl_version" in value else None,
        communicators=tuple(
            _communicator(comm, hashes.get(str(comm["hash"]), line))
            for comm in value["communicators"]
        ),
        collection_timeouts=int(value.get("ras", {}).get("timeouts_count", 0)),
    )


def _communicator(comm: Mapping[str, Any], line: Line) -> RasComm:
    ranks = tuple(_rank(rank, line) for rank in comm.get("ranks", ()))
    counts = [dict(rank.launched) for rank in ranks]
    return RasComm(
        id=str(comm["hash"]),
        size=int(comm["size"]),
        ranks=ranks,
        missing=tuple(_missing(rank) for rank in comm.get("missing_ranks", ())),
        line=line,
        mismatch=any(c != counts[0] for c in counts),
    )


def _rank(rank: Mapping[str, Any], line: Line) -> RasRank:
    status = rank.get("status", {})
    return RasRank(
        rank=int(rank["rank"]),
        host=_host(rank.get("host")) or "",
        pid=int(rank.get("pid", -1)),
        device=int(rank["cuda_dev"]) if "cuda_dev" in rank else None,
        launched={str(k): int(v) for k, v in rank.get("collective_counts", {}).items()},
        init_state=int(status.get("init_state", 0)),
        async_error=int(status.get("async_error", 0)),
        finalizing=bool(status.get("finalize_called")),
        destroying=bool(status.get("destroy_flag")),
        aborting=bool(status.get("abort_flag")),
        line=line,
    )


def _missing(rank: Mapping[str, Any]) -> RasMissing:
    pid = int(rank.get("pid", -1))
    return RasMissing(
        rank=int(rank["rank"]),
        host=_host(rank.get("host")),
        pid=pid if pid >= 0 else None,
        considered_dead=bool(rank.get("status", {}).get("considered_dead")),
    )


def _event(value: Mapping[str, Any], line: Line) -> RasPeer:
    peer = value.get("peer") or {}
    pid = int(peer.get("pid", -1))
    return RasPeer(
        line=line,
        speaker=Speaker(time=_time(value.get("timestamp"))),
        event=str(value["event"]),
        peer_host=_host(peer.get("host")),
        peer_pid=pid if pid >= 0 else None,
    )


def _host(host: Any) -> str | None:
    return None if host in (None, "", "unknown") else str(host)


def _time(text: Any) -> datetime | None:
    """RAS stamps local time without a zone; it is read as UTC, so only differences on one host mean anything."""
    try:
        return datetime.strptime(str(text), "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
