"""How far every rank is on every communicator, as each source tells it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nccldoctor.correlate.places import Places, Seat
from nccldoctor.correlate.recorded import Track, describe
from nccldoctor.model.calls import Call, CallTable
from nccldoctor.model.digest import Digest
from nccldoctor.model.events.ras import RasComm, RasSnapshot
from nccldoctor.model.events.recorder import RecorderDump
from nccldoctor.model.events.recorder_log import shapes
from nccldoctor.model.events.torch import DumpSignal, GroupProgress, WatchdogTimeout
from nccldoctor.model.job import Lane, Origin
from nccldoctor.model.source import Line

RECENT = 8

_OPS = {
    "ALLREDUCE": "AllReduce",
    "ALLREDUCE_COALESCED": "AllReduce",
    "BROADCAST": "Broadcast",
    "REDUCE": "Reduce",
    "ALLGATHER": "AllGather",
    "_ALLGATHER_BASE": "AllGather",
    "REDUCE_SCATTER": "ReduceScatter",
    "_REDUCE_SCATTER_BASE": "ReduceScatter",
    "ALLTOALL": "AlltoAll",
    "ALLTOALL_BASE": "AlltoAll",
    "BARRIER": "Barrier",
    "SEND": "Send",
    "RECV": "Recv",
    "GATHER": "Gather",
    "SCATTER": "Scatter",
    "COALESCED": "Coalesced",
}


def build(
    places: Places, digests: Sequence[Digest], tracks: Mapping[str, Mapping[int, Track]]
) -> list[Lane]:
    """One lane per communicator, rank and source, sorted; `tracks` are the flight recorders', by communicator."""
    found = [
        *_from_calls(places, digests),
        *_from_recorders(tracks),
        *_from_ras(places, digests),
        *_from_watchdog(places, digests),
    ]
    order = list(Origin)
    return sorted(found, key=lambda lane: (lane.communicator, order.index(lane.origin), lane.rank))


def call_of_watchdog(event: WatchdogTimeout) -> Call:
    """The call of `WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=4096, …)` in NCCL's words."""
    return Call(_OPS.get(event.op, event.op), event.elements_in)


def _from_calls(places: Places, digests: Sequence[Digest]) -> Iterable[Lane]:
    tables: dict[Seat, CallTable] = {}
    for digest in digests:
        for table in digest.calls:
            seat = places.of_table(table)
            if seat is not None and (seat not in tables or tables[seat].count < table.count):
                tables[seat] = table
    for (ident, rank), table in tables.items():
        recent = table.tail[-RECENT:]
        yield Lane(
            communicator=ident,
            rank=rank,
            origin=Origin.CALLS,
            issued=table.count,
            by_op=_by_op(table),
            mix=table.mix,
            last=table.last,
            recent=recent,
            first_recent=table.count - len(recent) + 1,
            line=Line(table.file, table.last_line, table.last_text) if table.last else None,
        )


def _by_op(table: CallTable) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for call, number in table.mix.items():
        counts[call.op] += number
    return dict(sorted(counts.items()))


def _from_recorders(tracks: Mapping[str, Mapping[int, Track]]) -> Iterable[Lane]:
    for ident, of_rank in tracks.items():
        for rank, track in of_rank.items():
            last = track.last_entry()
            yield Lane(
                communicator=ident,
                rank=rank,
                origin=Origin.RECORDER,
                issued=track.issued,
                completed=track.completed,
                last=last.call if last else None,
                recent=track.recent(RECENT),
                first_recent=max(track.issued - RECENT + 1, track.first),
                line=Line(track.file, 0, f"last call: {describe(last)}" if last else ""),
                frames=last.frames if last else (),
            )


def _from_ras(places: Places, digests: Sequence[Digest]) -> Iterable[Lane]:
    """The latest counts; `seen` tells at how many moments RAS has shown just these."""
    lanes: dict[Seat, Lane] = {}
    stamps: dict[Seat, set[object]] = defaultdict(set)
    snapshots = [e for d in digests for e in d.events if isinstance(e, RasSnapshot)]
    for snapshot in sorted(snapshots, key=_moment):
        for comm in snapshot.communicators:
            if comm.id not in places.communicators:
                continue
            for lane in _ras_lanes(comm):
                seat = lane.communicator, lane.rank
                known = lanes.get(seat)
                if known is not None and not _same_counts(known.by_op, lane.by_op):
                    stamps[seat].clear()
                if known is None or len(lane.by_op) >= len(known.by_op) or not stamps[seat]:
                    lanes[seat] = lane
                stamps[seat].add(snapshot.speaker.time)
    for seat, lane in lanes.items():
        yield replace(lane, seen=max(1, len(stamps[seat] - {None})))


def _moment(snapshot: RasSnapshot) -> float:
    """Text answers tell no time: they come first, so that one that does is preferred."""
    time = snapshot.speaker.time
    return time.timestamp() if time is not None else 0.0


def _ras_lanes(comm: RasComm) -> Iterable[Lane]:
    for rank in comm.ranks:
        if rank.rank < comm.size and rank.launched:
            yield Lane(
                communicator=comm.id,
                rank=rank.rank,
                origin=Origin.RAS,
                issued=sum(rank.launched.values()),
                by_op=dict(rank.launched),
                line=rank.line or comm.line,
            )


def _same_counts(first: Mapping[str, int], second: Mapping[str, int]) -> bool:
    """A text answer tells only the operations that differ between ranks."""
    return all(first[op] == second[op] for op in first.keys() & second.keys())


def _from_watchdog(places: Places, digests: Sequence[Digest]) -> Iterable[Lane]:
    """Where a group also sends and receives, the watchdog's numbers count one or the other: no ranks can be compared."""
    lanes: dict[Seat, Lane] = {}
    mixed = _with_transfers(places, digests)
    timeouts: dict[int | None, WatchdogTimeout] = {}
    for event in (e for d in digests for e in d.events):
        if isinstance(event, WatchdogTimeout):
            timeouts.setdefault(event.speaker.rank, event)
        if not isinstance(event, (GroupProgress, DumpSignal)):
            continue
        rank = event.speaker.rank
        seat = places.seat_in_group(_group(event), rank)
        if seat is None or seat in lanes or seat[0] in mixed or event.enqueued < 0:
            continue
        timeout = timeouts.get(rank)
        failed = event.failed_sequence if isinstance(event, GroupProgress) else None
        last = call_of_watchdog(timeout) if timeout and timeout.sequence == failed else None
        lanes[seat] = Lane(
            communicator=seat[0],
            rank=seat[1],
            origin=Origin.WATCHDOG,
            issued=event.enqueued,
            completed=max(event.completed, 0),
            last=last if failed == event.enqueued else None,
            recent=(last,) if last else (),
            first_recent=failed or event.enqueued,
            line=event.line,
        )
    return lanes.values()


def _group(event: GroupProgress | DumpSignal) -> str:
    return event.group if event.group is not None else str(event.group_id or 0)


def _with_transfers(places: Places, digests: Sequence[Digest]) -> set[str | None]:
    """Communicators in which ranks send and receive. PyTorch makes pairs of their own for some: whatever holds such a pair."""
    found: set[str | None] = set()
    late: set[tuple[int | None, int]] = set()
    for digest in digests:
        for event in digest.events:
            rank = event.speaker.rank
            if isinstance(event, WatchdogTimeout) and event.op in ("SEND", "RECV"):
                late.add((rank, event.sequence))
            elif isinstance(event, GroupProgress) and (rank, event.failed_sequence) in late:
                found.add(places.of_group(_group(event), rank))
            elif isinstance(event, RecorderDump):
                kinds = {shape.group for shape, _ in shapes(event.entries) if shape.p2p}
                found |= {places.of_group(group, rank) for group in kinds}
        seats = [places.of_table(table) for table in digest.calls if table.peers]
        found |= {seat[0] for seat in seats if seat is not None}
    pairs = [c for ident in found if ident and (c := places.communicators[ident]).size == 2]
    held = {ident: {m.global_rank for m in c.members} for ident, c in places.communicators.items()}
    return found | {i for i, ranks in held.items() if any(held[p.id] <= ranks for p in pairs)}
