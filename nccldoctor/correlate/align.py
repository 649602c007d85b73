"""Where the calls of a communicator's ranks part: by ordinal, the majority against the odd ones."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from operator import ne

from nccldoctor.correlate.parted_tracks import first_parting
from nccldoctor.correlate.places import Places, Reader
from nccldoctor.correlate.recorded import Track
from nccldoctor.correlate.totals import unbalanced
from nccldoctor.model.calls import WINDOW, Call, CallTable
from nccldoctor.model.digest import Digest
from nccldoctor.model.job import Divergence, Lane, Origin
from nccldoctor.model.source import Line

RESYNC = 64
"""So many calls must agree after a gap before it counts as lines that the log lost."""

RESYNC_CALM = 8, 4, 2
"""As many suffice where no message says that anything stands still: a call left out would have stopped the job."""

MOST_LOST = 16
MOST_TORN = 256
"""Gaps on one communicator, after which logs are too torn to be put together again."""

MOST_KINDS = 8
"""Different sequences to compare with each other, where several logs have lost lines."""


def diverge(
    places: Places,
    digests: Sequence[Digest],
    tracks: Mapping[str, Mapping[int, Track]],
    reader: Reader,
    calm: bool,
) -> tuple[list[Divergence], dict[tuple[str, int], int]]:
    """The first difference per communicator and source, and how many lines of which rank's log are lost.

    `calm`: no message in the evidence says that a call failed or waited too long.

    A gap after which everything agrees again is a lost line and no difference: it is counted in the second result,
    by (communicator, rank), and shown as a divergence with `torn`.
    """
    found: list[Divergence] = []
    lost: dict[tuple[str, int], int] = {}
    tables: dict[str, dict[int, CallTable]] = defaultdict(dict)
    for digest in digests:
        for table in digest.calls:
            seat = places.of_table(table)
            if seat is not None:
                known = tables[seat[0]].get(seat[1])
                if known is None or known.count < table.count:
                    tables[seat[0]][seat[1]] = table
    for ident in sorted(tables):
        found += _in_tables(ident, tables[ident], reader, lost, calm)
    for ident in sorted(tracks):
        parted = first_parting(ident, tracks[ident])
        uneven = unbalanced(ident, places.communicators[ident].size, tracks[ident])
        told = [divergence for divergence in (parted, uneven) if divergence is not None]
        found += sorted(told, key=lambda divergence: divergence.ordinal)[:1]
    return found, lost


def restore(lanes: Sequence[Lane], lost: Mapping[tuple[str, int], int]) -> list[Lane]:
    """The lanes with the calls added whose lines the logs lost."""
    return [
        replace(
            lane,
            issued=lane.issued + lost[lane.communicator, lane.rank],
            first_recent=lane.first_recent + lost[lane.communicator, lane.rank],
        )
        if lane.origin is Origin.CALLS and (lane.communicator, lane.rank) in lost
        else lane
        for lane in lanes
    ]


def _in_tables(
    ident: str,
    tables: dict[int, CallTable],
    reader: Reader,
    lost: dict[tuple[str, int], int],
    calm: bool,
) -> list[Divergence]:
    """Steps over windows that agree and looks into those that do not; a rank with lost lines is shifted."""
    shift: dict[int, int] = dict.fromkeys(tables, 0)
    torn: list[Divergence] = []
    position = _common_windows(tables) * WINDOW
    while True:
        here = {
            rank: _calls(table, reader, position + 1 - shift[rank], WINDOW)
            for rank, table in tables.items()
        }
        here = {rank: calls for rank, calls in here.items() if calls}
        if len(here) < 2:
            return torn
        offset, agreed = _first_difference(here)
        if offset is None:
            position += agreed
            continue
        ordinal = position + offset + 1
        calls = {rank: window[offset] for rank, window in here.items() if offset < len(window)}
        gaps = _gaps(calls, tables, reader, shift, ordinal)
        if calm and not gaps and len(torn) < MOST_TORN:
            gaps = _many_gaps(list(calls), tables, reader, shift, ordinal)
        if not gaps:
            lines = {
                rank: Line(tables[rank].file, tables[rank].last_line, tables[rank].last_text)
                for rank in calls
                if tables[rank].count + shift[rank] == ordinal
            }
            rests = [_calls(tables[r], reader, ordinal - shift[r], RESYNC) for r in calls]
            replaced = _is_replaced(rests)
            return [
                *torn,
                Divergence(ident, Origin.CALLS, ordinal, calls, lines, replaced=replaced),
            ]
        for rank, gap in gaps.items():
            shift[rank] += gap
            lost[ident, rank] = shift[rank]
        torn.append(Divergence(ident, Origin.CALLS, ordinal, calls, torn=True))
        position = ordinal - 1 + max(gaps.values())


def _common_windows(tables: Mapping[int, CallTable]) -> int:
    """How many digests from the start agree on every rank that has them."""
    most = max((len(t.windows) for t in tables.values()), default=0)
    for index in range(most):
        if len({t.windows[index] for t in tables.values() if index < len(t.windows)}) > 1:
            return index
        if any(len(t.windows) <= index for t in tables.values()):
            return index
    return most


def _calls(table: CallTable, reader: Reader, first: int, number: int) -> tuple[Call, ...]:
    """Calls from ordinal `first` on; from the table's tail where it reaches, else re-read."""
    number = min(number, table.count - first + 1)
    if number <= 0 or first < 1:
        return ()
    start_of_tail = table.count - len(table.tail) + 1
    if first >= start_of_tail:
        return table.tail[first - start_of_tail : first - start_of_tail + number]
    return reader(table, first, number)


def _first_difference(here: Mapping[int, tuple[Call, ...]]) -> tuple[int | None, int]:
    """(index of the first call on which two ranks differ, how far the longest stretch without one reaches)."""
    longest = max(here.values(), key=len)
    nearest: int | None = None
    for calls in {id(c): c for c in here.values()}.values():
        common = longest[: len(calls)]
        if calls != common:
            index = next(i for i, differs in enumerate(map(ne, calls, common)) if differs)
            nearest = index if nearest is None else min(nearest, index)
    return nearest, len(longest)


def _gaps(
    calls: Mapping[int, Call],
    tables: Mapping[int, CallTable],
    reader: Reader,
    shift: Mapping[int, int],
    ordinal: int,
) -> dict[int, int]:
    """Rank → lines lost before `ordinal`, where the odd ranks agree with the majority again after a gap."""
    usual, votes = Counter(calls.values()).most_common(1)[0]
    if votes * 2 <= len(calls) and len(calls) > 2:
        return {}
    model = next(rank for rank, call in calls.items() if call == usual)
    odd = [rank for rank, call in calls.items() if call != usual]
    found: dict[int, int] = {}
    for rank in odd:
        gap = _gap(tables, reader, shift, ordinal, rank, model)
        if gap is None and len(calls) == 2:
            gap = _gap(tables, reader, shift, ordinal, model, rank)
            rank = model
        if gap is None:
            return {}
        found[rank] = gap
    return found


def _gap(
    tables: Mapping[int, CallTable],
    reader: Reader,
    shift: Mapping[int, int],
    ordinal: int,
    torn: int,
    model: int,
) -> int | None:
    ours = _calls(tables[torn], reader, ordinal - shift[torn], RESYNC)
    theirs = _calls(tables[model], reader, ordinal - shift[model], RESYNC + MOST_LOST)
    if len(ours) < RESYNC:
        return None
    for gap in range(1, MOST_LOST + 1):
        if theirs[gap : gap + RESYNC] == ours:
            return gap
    return None


def _many_gaps(
    ranks: Sequence[int],
    tables: Mapping[int, CallTable],
    reader: Reader,
    shift: Mapping[int, int],
    ordinal: int,
) -> dict[int, int]:
    """The same where several logs lost lines close together: each sequence against each other one.

    A call that one rank made instead of another stands in its place and leaves no gap. Where every rank would lack
    calls that others have, nothing is explained: one of them at least must go forward.
    """
    kinds: dict[tuple[Call, ...], list[int]] = defaultdict(list)
    for rank in ranks:
        kinds[_calls(tables[rank], reader, ordinal - shift[rank], RESYNC)].append(rank)
    if len(kinds) > MOST_KINDS:
        return {}
    found: dict[int, int] = {}
    for ours, torn in kinds.items():
        gaps = [_lost(ours, theirs) for theirs in kinds if theirs != ours]
        if None in gaps:
            return {}
        if most := max((gap for gap in gaps if gap), default=0):
            found |= dict.fromkeys(torn, most)
    return found if len(found) < len(ranks) else {}


def _lost(ours: tuple[Call, ...], theirs: tuple[Call, ...]) -> int | None:
    """How many calls ours lack at the start; None when the two do not differ by a gap in one of them."""
    if ours[0] == theirs[0]:
        return 0
    for length in RESYNC_CALM:
        mine, other = ours[:length], theirs[:length]
        if min(len(mine), len(other)) < 2 or mine[1:] == other[1:]:
            continue
        for gap in range(1, MOST_LOST + 1):
            if theirs[gap : gap + len(mine)] == mine:
                return gap
            if ours[gap : gap + len(other)] == other:
                return 0
    return None


def _is_replaced(rests: Sequence[tuple[Call, ...]]) -> bool:
    """Does one call stand in another's place: do all go on alike after it, or all end with it?

    Where calls repeat themselves, a line that was lost may look the same: then it does not count.
    """
    longest: dict[Call, tuple[Call, ...]] = {}
    for rest in sorted(rests, key=len, reverse=True):
        if longest.setdefault(rest[0], rest)[: len(rest)] != rest:
            return False
    if len(longest) > MOST_KINDS:
        return False
    for ours, theirs in combinations(longest.values(), 2):
        common = min(len(ours), len(theirs))
        if ours[1:common] != theirs[1:common] or common == 1 < max(len(ours), len(theirs)):
            return False
        for gap in range(1, MOST_LOST + 1):
            if _fits(ours, theirs[gap:]) or _fits(theirs, ours[gap:]):
                return False
    return True


def _fits(calls: tuple[Call, ...], later: tuple[Call, ...]) -> bool:
    length = min(len(calls), len(later))
    return length > 0 and calls[:length] == later[:length]
