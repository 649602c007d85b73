"""All-to-alls in flight recorders whose ranks together send another number of elements than they receive."""

from collections import defaultdict
from collections.abc import Mapping
from math import prod

from nccldoctor.correlate.recorded import Track, describe
from nccldoctor.model.events.recorder import RecorderEntry
from nccldoctor.model.events.recorder_log import RecorderLog
from nccldoctor.model.job import Divergence, Origin
from nccldoctor.model.source import Line


def unbalanced(ident: str, size: int, tracks: Mapping[int, Track]) -> Divergence | None:
    """The first all_to_all that all `size` ranks have recorded, and whose totals differ.

    How much one rank sends to another is their own business, but every element that is sent must be received.
    """
    if len(tracks) < size:
        return None
    surplus: dict[int, int] = defaultdict(int)
    for track in tracks.values():
        for sequence, sent in _surplus(track):
            surplus[sequence] += sent
    for sequence in sorted(sequence for sequence, sent in surplus.items() if sent):
        entries = {rank: track.entry(sequence) for rank, track in tracks.items()}
        told = {rank: e for rank, e in entries.items() if e is not None and _tells(e)}
        if len(told) == size and not any(sequence in t.blocks for t in tracks.values()):
            return _divergence(ident, sequence, told, tracks)
    return None


def _surplus(track: Track) -> list[tuple[int, int]]:
    """Of each all_to_all that is uneven on this rank: its sequence, and how much more it sends than it receives."""
    log = track.entries
    if not isinstance(log, RecorderLog):
        return [
            (track.first + index, _sent(log[at]) - _received(log[at]))
            for index, at in enumerate(track.at)
            if at >= 0 and _tells(log[at])
        ]
    more = [_sent(shape) - _received(shape) if _tells(shape) else 0 for shape in log.shapes]
    if not any(more):
        return []
    numbered = ((i, more[log.shape[at]]) for i, at in enumerate(track.at) if at >= 0)
    return [(track.first + index, sent) for index, sent in numbered if sent]


def _tells(entry: RecorderEntry) -> bool:
    return entry.call.op == "AlltoAll" and bool(entry.input_sizes and entry.output_sizes)


def _sent(entry: RecorderEntry) -> int:
    return sum(prod(size) for size in entry.input_sizes)


def _received(entry: RecorderEntry) -> int:
    return sum(prod(size) for size in entry.output_sizes)


def _divergence(
    ident: str, sequence: int, told: Mapping[int, RecorderEntry], tracks: Mapping[int, Track]
) -> Divergence:
    return Divergence(
        ident,
        Origin.RECORDER,
        sequence,
        {rank: entry.call for rank, entry in told.items()},
        {rank: Line(tracks[rank].file, 0, describe(entry)) for rank, entry in told.items()},
        totals={rank: (_sent(entry), _received(entry)) for rank, entry in told.items()},
    )
