"""Where the flight recorders of a communicator's ranks part: by sequence number."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from nccldoctor.correlate.recorded import Track, describe, key, other_side
from nccldoctor.model.calls import Call
from nccldoctor.model.events.recorder import RecorderEntry
from nccldoctor.model.job import Divergence, Origin
from nccldoctor.model.source import Line


def first_parting(ident: str, tracks: Mapping[int, Track]) -> Divergence | None:
    """The first sequence number at which recorders differ; a rank whose ring lost it has no vote."""
    filled = {rank: t for rank, t in tracks.items() if t.ids}
    if len(filled) < 2:
        return None
    if len({(t.first, t.ids.tobytes()) for t in filled.values()}) == 1:
        return None
    start = min(t.first for t in filled.values())
    end = max(t.first + len(t.ids) for t in filled.values())
    distinct: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for rank, track in filled.items():
        distinct[track.first, track.ids.tobytes()].append(rank)
    leaders = [filled[ranks[0]] for ranks in distinct.values()]
    for sequence in range(start, end):
        kinds = {_kind(track, sequence) for track in leaders} - {-1}
        if len(kinds) > 1:
            return _divergence(ident, filled, sequence)
    return None


def _kind(track: Track, sequence: int) -> int:
    index = sequence - track.first
    return track.ids[index] if 0 <= index < len(track.ids) else -1


def _divergence(ident: str, tracks: Mapping[int, Track], sequence: int) -> Divergence:
    """The calls with that number; of coalesced blocks the first call in which they differ."""
    told = {r: calls for r, t in tracks.items() if (calls := t.calls_of(sequence))}
    depth = max(map(len, told.values()))
    entries: dict[int, RecorderEntry] = {}
    for index in range(depth):
        entries = {rank: calls[min(index, len(calls) - 1)] for rank, calls in told.items()}
        if len({key(entry) for entry in entries.values()}) > 1:
            break
    lines = {rank: Line(tracks[rank].file, 0, describe(entry)) for rank, entry in entries.items()}
    return Divergence(ident, Origin.RECORDER, sequence, _told_apart(entries), lines)


def _told_apart(entries: Mapping[int, RecorderEntry]) -> dict[int, Call]:
    """Calls that differ where the entries do: by PyTorch's names, or with the other side's size, if need be."""
    ways = (_plain, _by_name, _with_other_side)
    kinds = len({key(entry) for entry in entries.values()})
    for way in ways:
        calls = {rank: way(entry) for rank, entry in entries.items()}
        if len(set(calls.values())) == kinds:
            break
    return calls


def _plain(entry: RecorderEntry) -> Call:
    return entry.call


def _by_name(entry: RecorderEntry) -> Call:
    return replace(entry.call, op=entry.name)


def _with_other_side(entry: RecorderEntry) -> Call:
    into = other_side(entry)
    kind = f"{entry.call.datatype or ''} {'from' if entry.call.op == 'ReduceScatter' else 'into'} {into}"
    return entry.call if into is None else replace(entry.call, datatype=kind.strip())
