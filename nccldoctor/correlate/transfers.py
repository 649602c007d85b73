"""Sends without their receives: what both ends of each pair of ranks say, by recorders and by COLL lines."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nccldoctor.correlate.places import Places
from nccldoctor.correlate.recorded import describe
from nccldoctor.model.digest import Digest
from nccldoctor.model.events.recorder import RecorderDump, RecorderEntry
from nccldoctor.model.events.recorder_log import distinct
from nccldoctor.model.job import Origin, Transfer
from nccldoctor.model.source import Line

Pair = tuple[str, int, int]
"""Communicator, sender, receiver; ranks inside the communicator."""


@dataclass
class _Ends:
    """Calls of one pair that have not ended, in order."""

    sends: list[RecorderEntry] = field(default_factory=list)
    receives: list[RecorderEntry] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)


def unmatched(places: Places, digests: Sequence[Digest]) -> list[Transfer]:
    """Pairs whose ends do not meet, sorted; a receiver from any source meets every sender."""
    found = [*_by_recorders(places, digests), *_by_calls(places, digests)]
    return sorted(found, key=lambda t: (t.communicator, t.source, t.target, t.origin.value))


def _by_recorders(places: Places, digests: Sequence[Digest]) -> Iterable[Transfer]:
    ends: dict[Pair, _Ends] = defaultdict(_Ends)
    heard: set[tuple[str, int]] = set()
    anywhere: set[tuple[str, int]] = set()
    for dump in (e for d in digests for e in d.events if isinstance(e, RecorderDump)):
        for group in dump.groups:
            if seat := places.seat_in_group(group.name, dump.speaker.rank):
                heard.add(seat)
        if not any(shape.p2p for shape in distinct(dump.entries)):
            continue
        for entry in dump.entries:
            if not entry.p2p or entry.state == "completed" or entry.backend == "gloo":
                continue
            seat = places.seat_in_group(entry.group, dump.speaker.rank)
            if seat is not None:
                _collect(ends, anywhere, seat, entry, dump.line.file)
    for (ident, source, target), pair in ends.items():
        if (ident, target) in anywhere or not {(ident, source), (ident, target)} <= heard:
            continue
        sizes = _sizes(pair)
        if len(pair.sends) != len(pair.receives) or sizes is not None:
            yield Transfer(
                ident,
                Origin.RECORDER,
                source,
                target,
                len(pair.sends),
                len(pair.receives),
                sizes,
                tuple(pair.lines[:4]),
            )


def _collect(
    ends: Mapping[Pair, _Ends],
    anywhere: set[tuple[str, int]],
    seat: tuple[str, int],
    entry: RecorderEntry,
    file: str,
) -> None:
    ident, rank = seat
    peer = entry.call.root
    if entry.call.op == "Recv" and peer is None:
        anywhere.add(seat)
    elif entry.call.op == "Send" and peer is not None:
        ends[ident, rank, peer].sends.append(entry)
        ends[ident, rank, peer].lines.append(Line(file, 0, describe(entry)))
    elif entry.call.op == "Recv" and peer is not None:
        ends[ident, peer, rank].receives.append(entry)
        ends[ident, peer, rank].lines.append(Line(file, 0, describe(entry)))


def _sizes(pair: _Ends) -> tuple[int, int] | None:
    for send, receive in zip(pair.sends, pair.receives, strict=False):
        sent, received = send.call.count, receive.call.count
        if sent is not None and received is not None and sent != received:
            return sent, received
    return None


def _by_calls(places: Places, digests: Sequence[Digest]) -> Iterable[Transfer]:
    counts: dict[Pair, dict[str, int]] = defaultdict(dict)
    lines: dict[Pair, list[Line]] = defaultdict(list)
    heard: set[tuple[str, int]] = set()
    for table in (t for d in digests for t in d.calls):
        seat = places.of_table(table)
        if seat is None:
            continue
        heard.add(seat)
        ident, rank = seat
        for (op, peer), number in table.peers.items():
            pair = (ident, rank, peer) if op == "Send" else (ident, peer, rank)
            counts[pair][op] = number
            lines[pair].append(Line(table.file, table.last_line, table.last_text))
    for pair, ops in counts.items():
        ident, source, target = pair
        sent, received = ops.get("Send", 0), ops.get("Recv", 0)
        if sent != received and {(ident, source), (ident, target)} <= heard:
            yield Transfer(
                ident, Origin.CALLS, source, target, sent, received, None, tuple(lines[pair][:2])
            )
