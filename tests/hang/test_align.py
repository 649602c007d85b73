"""Calls are aligned by ordinal: the odd rank is found, and a lost line is no mismatch."""

from collections.abc import Sequence
from hashlib import blake2b

from nccldoctor.correlate.compare import compare
from nccldoctor.correlate.places import Places
from nccldoctor.model.calls import WINDOW, Call, CallTable
from nccldoctor.model.digest import Digest
from nccldoctor.model.event import Event
from nccldoctor.model.events.torch import WatchdogTimeout
from nccldoctor.model.job import Communicator, Divergence, Lane, Member, Origin
from nccldoctor.model.source import Kind, Line, Source

SUM = Call("AllReduce", 1024, "float32", "sum", 0)
SMALL = Call("AllReduce", 8, "float32", "sum", 0)
CAST = Call("Broadcast", 1024, "float32", "sum", 0)
GATHER = Call("AllGather", 16, "int64", "sum", 0)


STUCK = WatchdogTimeout(
    line=Line("0.log", 1, ""), group_rank=0, sequence=1, op="ALLREDUCE", timeout_ms=1, ran_ms=1
)


def _compare(streams: Sequence[list[Call]], *events: Event) -> tuple[list[Lane], list[Divergence]]:
    members = tuple(Member(r, process=r, global_rank=r) for r in range(len(streams)))
    comm = Communicator("0xa", "communicator 0xa", len(streams), members)
    asked: list[tuple[int, int]] = []

    def reader(table: CallTable, first: int, number: int) -> tuple[Call, ...]:
        asked.append((first, number))
        return tuple(streams[table.pid][first - 1 : first - 1 + number])

    places = Places({"0xa": comm}, lambda t: ("0xa", t.pid), lambda g, r: None)
    digests = [
        Digest(Source(f"{pid}.log", Kind.LOG, 0), events, (_table(pid, calls),))
        for pid, calls in enumerate(streams)
    ]
    found = compare(places, digests, reader)
    assert sum(n for _, n in asked) <= 6 * WINDOW * len(streams)
    return found.lanes, found.divergences


def _table(pid: int, calls: list[Call]) -> CallTable:
    full = len(calls) // WINDOW
    return CallTable(
        file=f"{pid}.log",
        host="a",
        pid=pid,
        device=0,
        comm="0x1",
        generation=0,
        nranks=None,
        count=len(calls),
        windows=tuple(_digest(calls[i * WINDOW : (i + 1) * WINDOW]) for i in range(full)),
        tail=tuple(calls[full * WINDOW :]),
        last=calls[-1] if calls else None,
    )


def _digest(calls: list[Call]) -> bytes:
    return blake2b(repr(calls).encode(), digest_size=8).digest()


def _step(n: int) -> list[Call]:
    return [Call("AllReduce", 100 + n % 37, "float32", "sum", 0), CAST, GATHER, SUM]


HEALTHY = [call for n in range(1500) for call in _step(n)]


def test_equal_streams_have_no_divergence() -> None:
    lanes, divergences = _compare([HEALTHY] * 4)
    assert divergences == []
    assert [lane.issued for lane in lanes] == [6000] * 4


def test_odd_rank_in_a_late_window() -> None:
    odd = [*HEALTHY[:4321], SMALL, *HEALTHY[4322:4325]]
    _, (divergence,) = _compare([HEALTHY, odd, HEALTHY, HEALTHY])
    assert (divergence.ordinal, divergence.torn) == (4322, False)
    assert divergence.calls[1] == SMALL
    assert {divergence.calls[r] for r in (0, 2, 3)} == {HEALTHY[4321]}


def test_rank_that_is_behind_is_no_divergence() -> None:
    lanes, divergences = _compare([HEALTHY, HEALTHY[:3000], HEALTHY[:5000]])
    assert divergences == []
    assert [lane.issued for lane in lanes] == [6000, 3000, 5000]


def test_lost_lines_are_no_mismatch() -> None:
    torn = HEALTHY[:2345] + HEALTHY[2348:]
    lanes, divergences = _compare([HEALTHY, HEALTHY, torn])
    assert [d.torn for d in divergences] == [True]
    assert [lane.issued for lane in lanes] == [6000] * 3
    lanes, divergences = _compare([HEALTHY, torn])
    assert [d.torn for d in divergences] == [True]


def test_mismatch_after_lost_lines() -> None:
    torn = [*HEALTHY[:1000], *HEALTHY[1001:5900], SMALL]
    _, divergences = _compare([HEALTHY[:5901], HEALTHY[:5901], torn])
    assert [(d.ordinal, d.torn) for d in divergences] == [(1001, True), (5901, False)]


def test_skipped_call_shortly_before_the_end_is_a_mismatch() -> None:
    skipped = HEALTHY[:5950] + HEALTHY[5951:5960]
    _, divergences = _compare([HEALTHY[:5960], HEALTHY[:5960], skipped], STUCK)
    assert [(d.ordinal, d.torn) for d in divergences] == [(5951, False)]
    assert divergences[0].origin is Origin.CALLS


def _replaced(*ends: list[Call]) -> list[bool]:
    _, divergences = _compare([[*HEALTHY[:200], *end] for end in ends])
    return [d.replaced for d in divergences if not d.torn]


def test_a_call_in_anothers_place_is_told_from_a_lost_line() -> None:
    usual = HEALTHY[200:206]
    assert _replaced(usual, usual, [SMALL, *usual[1:]]) == [True]
    assert _replaced(usual[:1], usual[:1], [SMALL]) == [True]
    assert _replaced(usual, usual, [usual[0], *usual[2:]]) == []
    assert _replaced(usual[:2], usual[:2], [usual[1]]) == [False]
    assert _replaced([SMALL, CAST], [SMALL, CAST], [CAST]) == [False]


def test_a_lost_line_among_equal_calls_is_no_call_in_anothers_place() -> None:
    same = [SUM, SUM, SUM]
    assert _replaced([*same, CAST, *same], [*same, CAST, *same], [*same, *same]) in ([], [False])
