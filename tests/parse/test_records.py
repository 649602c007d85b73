"""Records stay what they are: glued to another, behind any prefix, cut anywhere, in any version's header."""

import io
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.model.digest import Digest
from nccldoctor.model.event import Event
from nccldoctor.model.source import NOBODY, Kind, Source
from nccldoctor.parse import patterns
from nccldoctor.parse.header import split_records
from nccldoctor.parse.logs import read
from tests.parse.test_prefixes import FORMS

MESSAGES = sorted({sample for pattern in patterns.NCCL for sample in pattern.samples.values()})
HEADERS = {
    "INFO": "gpu-1:70:71 [3] NCCL INFO ",
    "WARN": "gpu-1:70:71 [3] misc/socket.cc:50 NCCL WARN ",
    "WARN 2.30+": "[2026-11-30 04:00:00] gpu-1:70:71 [3] init.cc:90 (initTransportsRank) NCCL WARN ",
    "ATTN 2.32+": "[2026-11-30 04:00:00] gpu-1:70:71 [3] init.cc:90 (ncclInit) NCCL ATTN ",
    "TRACE": "gpu-1:70:71 [3] 12.345678 ncclInit:90 NCCL TRACE ",
    "CALL": "gpu-1:70:71 NCCL CALL ",
    "RCCL": "gpu-1:70:71 [3] [FATAL ERROR]: ",
    "RCCL, no colon": "gpu-1:70:71 [3] [FATAL ERROR] ",
}
HOSTS = ["gpu-1", "<host>", "", "10-20-30-40", "8c5fa2b0-1d3e-4f60-9a7b-0c1d2e3f4a5b", "ubuntu"]


def digest(text: str) -> Digest:
    return read(Source("log", Kind.LOG, len(text)), io.BytesIO(text.encode()))


def said(result: Digest) -> list[Event]:
    """The events without the line and what prefixes tell."""
    return [
        replace(
            event,
            line=replace(event.line, number=1, text=""),
            speaker=replace(event.speaker, rank=None, local_rank=None, time=None),
        )
        for event in result.events
    ]


@pytest.mark.parametrize("form", HEADERS)
def test_every_header_is_read(form: str) -> None:
    (record,) = split_records(HEADERS[form] + "Using network IB", NOBODY)
    assert (record.speaker.host, record.speaker.pid, record.speaker.tid) == ("gpu-1", 70, 71)
    assert record.message == "Using network IB"
    assert record.speaker.device == (None if form == "CALL" else 3)


@pytest.mark.parametrize("host", HOSTS)
def test_every_host_name_is_read(host: str) -> None:
    (record,) = split_records(f"{host}:70:71 [3] NCCL INFO Using network IB", NOBODY)
    assert record.speaker.host == host


@given(st.sampled_from(MESSAGES), st.sampled_from(MESSAGES), st.sampled_from(sorted(HEADERS)))
@settings(deadline=None, max_examples=60)
def test_two_records_glued_are_two(first: str, second: str, form: str) -> None:
    known = "gpu-1:70:70 [3] NCCL INFO cudaDriverVersion 13000\n"
    known += "node2:80:80 [0] NCCL INFO cudaDriverVersion 13000\n"
    one, two = HEADERS[form] + first, "node2:80:81 [0] NCCL INFO " + second
    apart, glued = digest(known + one + "\n" + two + "\n"), digest(known + one + two + "\n")
    assert said(glued) == said(apart)
    assert glued.coverage.records == apart.coverage.records


@given(
    st.sampled_from(MESSAGES),
    st.sampled_from(sorted(HEADERS)),
    st.lists(st.sampled_from([prefix for prefix, _ in FORMS]), max_size=3),
)
@settings(deadline=None, max_examples=60)
def test_prefixes_change_no_event(message: str, form: str, prefixes: list[str]) -> None:
    line = HEADERS[form] + message.rstrip() + "\n"
    assert said(digest("".join(prefixes) + line)) == said(digest(line))


@given(st.sampled_from(MESSAGES), st.sampled_from(sorted(HEADERS)), st.integers(0, 200))
@settings(deadline=None, max_examples=60)
def test_a_cut_record_harms_no_other(message: str, form: str, cut: int) -> None:
    whole = "node2:80:81 [0] NCCL INFO Using network IB\n"
    events = said(digest(whole + (HEADERS[form] + message)[:cut] + "\n" + whole))
    assert [e for e in events if e.speaker.host == "node2"] == said(digest(whole)) * 2


@given(st.binary(max_size=600))
@settings(deadline=None, max_examples=100)
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    result = read(Source("log", Kind.LOG, len(data)), io.BytesIO(data))
    assert result.source.lines == data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def test_unknown_messages_are_listed_with_their_count() -> None:
    lines = [f"gpu-1:70:71 [3] NCCL INFO a new message {n} at 0x{n:x}" for n in range(1, 5)]
    result = digest("\n".join(lines))
    (unknown,) = result.coverage.unknown
    assert (unknown.shape, unknown.count) == ("a new message N at NxH", 4)
    assert result.coverage.ratio == 0.0


def test_a_message_repeated_without_end_is_kept_a_few_times_and_counted_always() -> None:
    line = "gpu-1:70:71 [3] NCCL INFO Using network IB\n"
    result = digest(line * 5000)
    assert result.coverage.understood == result.coverage.records == 5000
    assert len(result.events) < 20


@pytest.mark.parametrize("at", [0, 5, 10, 40, 60, 100, 150])
def test_numbers_without_end_harm_one_line_only(at: int) -> None:
    whole = "gpu-1:70:71 [3] NCCL INFO Using network IB"
    call = (
        "gpu-1:70:71 [3] NCCL INFO AllReduce: opCount 1 sendbuff 0x7f recvbuff 0x7f count 4 datatype 7 op 0 root 0 "
        "comm 0xa0 [nranks=4] stream 0x55"
    )
    digits = "9" * 6000
    lines = [whole, whole[:at] + digits + whole[at:], call[:at] + digits + call[at:], call, whole]
    lines += [f"gpu-1:{digits}:71 [3] NCCL INFO Using network IB", f"[rank{digits}]: boo"]
    lines += [f'Traceback (most recent call last):\n  File "x", line {digits}, in f\nValueError: x']
    result = digest("\n".join([*lines, whole]) + "\n")
    assert len([e for e in result.events if e.line.text == whole]) == 3
    assert sum(table.count for table in result.calls) >= 1


def test_a_mismatch_without_a_type_is_still_one() -> None:
    result = digest(
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
        "CollectiveFingerPrint(OpType=BARRIER), but Rank 0 is running collective: "
        "CollectiveFingerPrint(OpType=ALLREDUCE).\n"
    )
    assert all(event.line.number == 1 for event in result.events)
