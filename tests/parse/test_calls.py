"""Call tables against a plain reading of the same lines, whatever stands between them, glued, torn or stamped."""

import io
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.evidence.discover import discover
from nccldoctor.model.calls import WINDOW, Call, CallTable
from nccldoctor.model.digest import Digest
from nccldoctor.model.source import Kind, Source
from nccldoctor.parse import digest_input, reread
from nccldoctor.parse.logs import read

CALL = (
    "{host}:{pid}:{pid} [{device}] NCCL INFO {op}: opCount {n:x} sendbuff 0x7f{n:010x} recvbuff (nil) "
    "count {count} datatype 7 op 0 root {root} comm {comm} [nranks=4] stream 0x55d0{suffix}"
)
INIT = (
    "{host}:{pid}:{pid} [{device}] NCCL INFO ncclCommInitRank comm {comm} rank 1 nranks 4 cudaDev 0 nvmlDev 0 "
    "busId 60 commId 0xabc - Init {phase}"
)
OTHERS = [
    "step=3 loss=0.5",
    "",
    "{host}:{pid}:{pid} [{device}] NCCL INFO Connected all rings",
    "Traceback (most recent call last):",
    "the count is 3 and opCount is no word",
]
RCCL = " task 3 globalrank 5"


def digest(text: str) -> Digest:
    return read(Source("log", Kind.LOG, len(text)), io.BytesIO(text.encode()))


def call(op: str = "AllReduce", count: int = 4, comm: str = "0xa0", **more: object) -> str:
    values = {"host": "node-1", "pid": 9, "device": 0, "n": 0, "root": 0, "suffix": "", **more}
    return CALL.format(op=op, count=count, comm=comm, **values)


@st.composite
def logs(draw: st.DrawFn) -> list[str]:
    lines = []
    stamp = draw(st.sampled_from(["", "[rank5]: ", "stamp"]))
    for n in range(draw(st.integers(0, 60))):
        writer = {"host": draw(st.sampled_from(["node-1", "n2"])), "pid": 9, "device": 0}
        comm = draw(st.sampled_from(["0xa0", "0xb0"]))
        kind = draw(st.integers(0, 9))
        if kind == 0:
            line = draw(st.sampled_from(OTHERS)).format(**writer)
        elif kind == 1:
            phases = draw(st.sampled_from([["START", "COMPLETE"], ["COMPLETE"]]))
            line = "\n".join(INIT.format(comm=comm, phase=phase, **writer) for phase in phases)
        else:
            line = call(
                draw(st.sampled_from(["AllReduce", "Broadcast", "Send"])),
                draw(st.sampled_from([1, 4096])),
                comm,
                n=n,
                root=draw(st.integers(0, 2)),
                suffix=draw(st.sampled_from(["", RCCL])),
                **writer,
            )
        front = f"2026-11-30T04:00:00.{n:06d}Z " if stamp == "stamp" else stamp
        lines += [front + part for part in line.split("\n")]
    return lines


def plain(lines: list[str]) -> list[tuple[str, str, int, list[Call], Counter]]:
    """(host, comm, generation, collectives, peers) of the same lines, one by one."""
    open_tables: dict[tuple[str, str], tuple[list[Call], Counter]] = {}
    inits: Counter = Counter()
    started = set()
    done = []

    def close(key: tuple[str, str], generation: int) -> None:
        calls, peers = open_tables.pop(key, ([], Counter()))
        if calls or peers:
            done.append((*key, generation, calls, peers))

    for line in lines:
        if init := re.search(r"(\S+):9:9 .* comm (\S+) rank .*- Init (\w+)", line):
            key = (init[1].split("]: ")[-1], init[2])
            if init[3] == "COMPLETE" and key in started:
                started.discard(key)
                continue
            if init[3] == "START":
                started.add(key)
            close(key, inits[key] - 1)
            inits[key] += 1
        elif m := re.search(r"(\S+):9:9 .*INFO (\w+): .*count (\d+) .*root (\d+) comm (\S+)", line):
            calls, peers = open_tables.setdefault((m[1], m[5]), ([], Counter()))
            if m[2] == "Send":
                peers["Send", int(m[4])] += 1
            else:
                calls.append(Call(m[2], int(m[3]), "float32", "sum", int(m[4])))
    for key in list(open_tables):
        close(key, max(0, inits[key] - 1))
    return done


def facts(table: CallTable) -> tuple:
    return (table.host, table.comm, table.generation, list(table.tail), Counter(table.peers))


@given(logs())
@settings(deadline=None, max_examples=80)
def test_tables_equal_a_plain_reading(lines: list[str]) -> None:
    result = digest("".join(line + "\n" for line in lines))
    key = lambda t: (t[:3], str(t[3:]))  # noqa: E731
    assert sorted(map(facts, result.calls), key=key) == sorted(plain(lines), key=key)
    assert result.source.lines == len(lines)
    for table in result.calls:
        if table.last_line:
            assert lines[table.last_line - 1] == table.last_text
            assert f" comm {table.comm} " in table.last_text


@pytest.mark.parametrize("stamped", [False, True])
def test_lines_between_calls_keep_their_numbers(stamped: bool) -> None:
    lines = []
    for n in range(30_000):
        writer = {"host": f"node-{n % 7}", "pid": n % 5}
        lines.append((f"2026-11-30T04:00:00.{n:06d}Z " if stamped else "") + call(n=n, **writer))
        if n % 1000 == 0:
            lines.append("[rank3]: ValueError: boo")
            lines.append(f"node-1:9:9 [0] NCCL WARN boo {n}")
    result = digest("\n".join(lines) + "\n")
    assert result.source.lines == len(lines)
    warned = [event for event in result.events if "WARN" in event.line.text]
    assert len(warned) == 30
    assert all(lines[event.line.number - 1] == event.line.text for event in warned)
    assert sum(table.count for table in result.calls) == 30_000


def test_records_glued_into_one_line_are_told_apart() -> None:
    text = call(host="node-1") + "\n" + call(host="node-2") + call(host="node-1") + "\n" + call()
    assert {t.host: t.count for t in digest(text).calls} == {"node-1": 3, "node-2": 1}


@pytest.mark.parametrize("cut", range(10, 190, 7))
def test_a_torn_line_is_counted_and_is_no_call(cut: int) -> None:
    whole = call(suffix=RCCL)
    result = digest("\n".join([whole, whole[:cut], whole]) + "\n")
    assert result.calls[0].count in (2, 3)
    assert (
        result.calls[0].tail == (Call("AllReduce", 4, "float32", "sum", 0),) * result.calls[0].count
    )
    if " opCount " in whole[:cut] and "]" not in whole[60:cut]:
        assert result.source.note == "1 torn lines"
        assert result.calls[0].count == 2


@pytest.mark.parametrize("packed", [False, True])
def test_windows_are_read_again_from_the_file(tmp_path: Path, packed: bool) -> None:
    import gzip

    lines = [call(count=n, n=n) for n in range(1, 20_001)]
    lines[500:500] = [call("Send", 7)] * 10
    text = ("\n".join(lines) + "\n").encode()
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(text) if packed else text)
    (table,) = digest_input(discover([str(path)])[0])[0].calls
    assert table.count == 20_000
    assert len(table.windows) == 20_000 // WINDOW
    assert len(table.seek) > 1
    for first, count in [(1, 5), (1024, 3), (15_000, 2000), (19_990, 100)]:
        got = [c.count for c in reread(table, first, count)]
        assert got == list(range(first, min(20_000, first + count - 1) + 1))


def test_equal_calls_give_equal_windows_and_one_difference_shows() -> None:
    def table(odd: int) -> CallTable:
        return digest("\n".join(call(count=1 + (n == odd), n=n) for n in range(3 * WINDOW))).calls[
            0
        ]

    same, other, different = table(-1), table(-1), table(WINDOW + 5)
    assert same.windows == other.windows
    assert [a == b for a, b in zip(same.windows, different.windows, strict=True)] == [
        True,
        False,
        True,
    ]


@given(st.binary(max_size=400), st.integers(0, 3))
@settings(deadline=None, max_examples=80)
def test_any_bytes_are_survived(junk: bytes, at: int) -> None:
    parts = [call().encode()] * 3
    parts.insert(at, junk)
    text = b"\n".join(parts)
    result = read(Source("log", Kind.LOG, len(text)), io.BytesIO(text))
    assert result.source.lines >= 3


def test_calls_in_a_containers_json_are_calls() -> None:
    def entry(n: int) -> str:
        log = call(n=n, count=n % 3 + 1)
        return f'{{"log":"{log}\\n","stream":"stdout","time":"2026-11-30T04:00:00.{n:09d}Z"}}'

    result = digest("\n".join(entry(n) for n in range(9000)))
    (table,) = result.calls
    assert (table.count, result.source.note) == (9000, "")
    assert {c.count: n for c, n in table.mix.items()} == {1: 3000, 2: 3000, 3: 3000}
