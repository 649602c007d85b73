"""Prefixes come off, in any stack, and what they tell is kept."""

import io
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.model.source import Kind, Source
from nccldoctor.parse.logs import read
from nccldoctor.parse.prefixes import Prefixes, moment, strip

RECORD = "gpu-node-01:736:752 [0] NCCL INFO Using network IB"
NOON = datetime(2026, 11, 30, 4, 0, tzinfo=timezone.utc)
FORMS = [
    ("[default3]:", {"local_rank": 3}),
    ("[trainer3]:", {"local_rank": 3}),
    ("[rank5]:", {"rank": 5}),
    ("[rank5]: ", {"rank": 5}),
    ("[rank: 5] ", {"rank": 5}),
    ("[RANK 5] ", {"rank": 5}),
    ("3: ", {"rank": 3}),
    (" 3: ", {"rank": 3}),
    ("[1,3]<stdout>:", {"rank": 3}),
    ("[1,3]<stderr>: ", {"rank": 3}),
    ("[prterun-host-1234@1,3]<stdout>: ", {"rank": 3}),
    ("Tue Nov 30 04:00:00 2026[1,3]<stdout>:", {"rank": 3}),
    ("[3] ", {}),
    ("node01: ", {"host": "node01"}),
    ("[pod/job-worker-0/pytorch] ", {"host": "job-worker-0"}),
    ("job-worker-0 pytorch ", {"host": "job-worker-0"}),
    ("\x1b[32mjob-worker-0 \x1b[36mpytorch\x1b[0m ", {"host": "job-worker-0"}),
    ("worker-1  | ", {}),
    ("2026-11-30T04:00:00.123456789Z stderr F ", {}),
    ("2026-11-30T04:00:00Z ", {"time": NOON}),
    ("2026-11-30T05:00:00.000+01:00 group/stream/id ", {"time": NOON}),
    ("2026-11-30 04:00:00,000 - ", {"time": NOON}),
    ("[2026-11-30 04:00:00,000] ", {"time": NOON}),
    ("(RayTrainWorker pid=4009, ip=192.0.2.7) ", {"pid": 4009, "host": "192.0.2.7"}),
    ("(RayWorkerWrapper pid=4009) ", {"pid": 4009}),
    ("(MegatronPolicyWorker[rank=0] pid=42, ip=192.0.2.7) ", {"rank": 0, "pid": 42}),
    ("\x1b[36m(RayWorkerWrapper pid=4009)\x1b[0m ", {"pid": 4009}),
    ("[36m(RayWorkerWrapper pid=4009)[0m ", {"pid": 4009}),
    ("Nov 30 04:00:00 gpu7 train[123]: ", {"host": "gpu7", "pid": 123}),
    ("2026-11-30T04:00:00.1+00:00 gpu7 train[123]: ", {"host": "gpu7", "pid": 123}),
    ("> ", {}),
    ("> > ", {}),
    ("│ ", {}),
    ("  123  ", {}),
    ("123\t", {}),
    ("[80746] ", {}),
    ("model.D0 [stderr] ", {}),
]


@pytest.mark.parametrize(("prefix", "told"), FORMS)
@pytest.mark.parametrize("text", [RECORD, "[rank5]: Traceback (most recent call last):"])
def test_each_form_comes_off_and_tells_what_it_knows(prefix: str, told: dict, text: str) -> None:
    rest, speaker = strip(prefix + text)
    if text == RECORD:
        assert rest == RECORD
    else:
        assert rest == "Traceback (most recent call last):"
        told = {"rank": 5, **{k: v for k, v in told.items() if k != "rank"}}
        if prefix.startswith("(Mega"):
            told["rank"] = 0
    assert {name: getattr(speaker, name) for name in told} == told


PLAIN = [
    "Epoch 3: loss 0.5",
    "12: 13",
    "mlx5_0: port 1 is down",
    "Rank 0: hello",
    "[Rank 1] Watchdog caught collective operation timeout",
    "[E703 21:51:54.112297123 ProcessGroupNCCL.cpp:1922] boo",
    "[2026-11-30 04:00:00] gpu:1:2 [0] x.cc:3 NCCL WARN boo",
    "NCCL version 2.28.9+cuda13.0",
    "    Broadcast |     6.3/   9.0 |",
    "",
    " ",
]


@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert strip(text)[0] == text


@given(st.lists(st.sampled_from([p for p, _ in FORMS]), max_size=4))
def test_any_stack_of_prefixes_comes_off(prefixes: list[str]) -> None:
    assert strip("".join(prefixes) + RECORD)[0] == RECORD


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    rest, _ = strip(text)
    assert len(rest) <= len(text) or text.startswith('{"')


def test_srun_labels_are_told_from_line_numbers_by_the_whole_file() -> None:
    labelled = [f"{i % 4}: step {i}" for i in range(40)]
    assert Prefixes(labelled).peel("3: step 9") == ("step 9", strip("3: [rank3]: x")[1])
    numbered = [f"{i}: step {i}" for i in range(100, 140)]
    assert Prefixes(numbered).peel("110: step 9")[0] == "step 9"
    assert Prefixes(numbered).peel("110: step 9")[1].rank is None


def test_pdsh_hosts_are_told_by_the_whole_file() -> None:
    lines = [f"node{i % 4:02d}: step {i}" for i in range(40)]
    rest, speaker = Prefixes(lines).peel("node03: step 9")
    assert (rest, speaker.host) == ("step 9", "node03")


def test_partial_lines_of_containers_are_joined() -> None:
    prefixes = Prefixes()
    assert prefixes.peel("2026-11-30T04:00:00Z stderr P gpu-node-01:736:752 [0] ")[0] == ""
    rest = prefixes.peel("2026-11-30T04:00:00Z stderr F NCCL INFO Using network IB")[0]
    assert rest == RECORD
    assert prefixes.peel('{"log":"gpu-node-01:736:752 ","stream":"stdout"}')[0] == ""
    rest, speaker = prefixes.peel(
        '{"log":"[0] NCCL INFO Using network IB\\n","time":"2026-11-30T04:00:00.1Z"}'
    )
    assert rest == RECORD
    assert speaker.time is not None


@pytest.mark.parametrize(
    "text", ["2026-11-30T04:00:00.000000001Z", "2026-11-30 04:00:00,0", "2026-11-30T05:00:00+0100"]
)
def test_times_of_all_shapes_are_read(text: str) -> None:
    assert moment(text) == NOON


def test_a_progress_bar_in_front_of_a_rank_comes_off() -> None:
    rest, speaker = strip(
        "  5%|▌    | 3/60 [00:08<02:44,  2.88s/it][rank5]:[E602 11:17:52.1 P.cpp:632] x"
    )
    assert rest == "[E602 11:17:52.1 P.cpp:632] x"
    assert speaker.rank == 5


def _ranks(*texts: str) -> set[int | None]:
    data = "\n".join(texts).encode()
    result = read(Source("log", Kind.LOG, len(data)), io.BytesIO(data))
    return {event.speaker.rank for event in result.events}


def test_a_task_with_several_devices_is_a_node_and_no_rank() -> None:
    one = "3: gpu-1:736:752 [0] NCCL INFO Using network IB"
    other = "3: gpu-1:737:753 [1] NCCL INFO Using network IB"
    assert _ranks(one) == {3}
    assert _ranks(one, other) == {None}
    assert _ranks(one, other, "3: [rank25]: ValueError: boo") == {None, 25}
