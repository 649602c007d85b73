"""Dumps of every schema become one event, and hostile or torn ones become one sentence."""

import json
import os
import pickle
from dataclasses import replace
from typing import Any

import pytest

from nccldoctor.model.events.recorder import RecorderDump
from nccldoctor.model.source import Kind, Source
from nccldoctor.parse import recorder


def _entry(sequence: int, **changes: Any) -> dict[str, Any]:
    entry = {
        "record_id": sequence - 1,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "op_id": sequence,
        "profiling_name": "nccl:all_reduce",
        "input_sizes": [[8, 2]],
        "output_sizes": [[8, 2]],
        "input_dtypes": ["Float"],
        "output_dtypes": ["Float"],
        "time_created_ns": 1_800_000_000_000_000_000 + sequence,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "timeout_ms": 600000,
        "state": "scheduled",
        "retired": False,
        "is_p2p": False,
        "frames": [{"name": "step", "filename": "train.py", "line": 7}],
    }
    return entry | changes


def _dump(*entries: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": "2.10",
        "comm_lib_version": "2.28.9",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "pg_status": {
            "0": {
                "last_enqueued_collective": len(entries),
                "last_started_collective": -1,
                "last_completed_collective": len(entries) - 1,
            }
        },
        "entries": list(entries),
    }


def _read(data: bytes, path: str = "fr_rank_3") -> tuple[RecorderDump | None, str]:
    digest = recorder.read(Source(path, Kind.RECORDER, len(data)), data)
    event = digest.events[0] if digest.events else None
    assert event is None or isinstance(event, RecorderDump)
    return event, digest.source.note


def _json(dump: dict[str, Any]) -> bytes:
    """As PyTorch writes JSON: 0 for None, numbers of the status as strings, no frames."""
    entries = [
        {k: 0 if v is None else v for k, v in e.items() if k != "frames"} for e in dump["entries"]
    ]
    status = {k: {n: str(v) for n, v in s.items()} for k, s in dump["pg_status"].items()}
    return json.dumps({**dump, "entries": entries, "pg_status": status}).encode()


def test_pickle_and_json_say_the_same() -> None:
    dump = _dump(_entry(1, state="completed", retired=True), _entry(2))
    pickled, _ = _read(pickle.dumps(dump, 2))
    from_json, _ = _read(_json(dump), "rank_3.json")
    assert pickled is not None and from_json is not None
    for event in (pickled, from_json):
        assert event.speaker.rank == 3
        assert event.groups[0].ranks == (0, 1)
        assert (event.groups[0].enqueued, event.groups[0].completed) == (2, 1)
        first, last = event.entries
        assert (first.state, first.retired, last.state, last.retired) == (
            "completed",
            True,
            "scheduled",
            False,
        )
        assert str(last.call) == "AllReduce(16 elements, float32)"
    assert pickled.entries[1].frames[0].function == "step"


def test_list_of_2_2_and_dict_of_2_3() -> None:
    old = {
        "pg_id": 0,
        "seq_id": 4,
        "profiling_name": "nccl:broadcast",
        "time_created_us": 5,
        "input_sizes": [[3]],
        "output_sizes": [[3]],
        "state": "started",
        "retired": False,
        "frames": [],
    }
    event, _ = _read(pickle.dumps([old], 2))
    assert event is not None
    assert (event.version, event.entries[0].sequence, event.entries[0].group) == ("", 4, "0")
    event, _ = _read(pickle.dumps({"version": "1.4", "entries": [old]}, 2))
    assert event is not None and event.version == "1.4"


@pytest.mark.parametrize("protocol", range(6))
def test_every_global_is_refused(protocol: int, capfd: pytest.CaptureFixture[str]) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.system, ("echo evil",)

    event, note = _read(pickle.dumps({"entries": [Evil()]}, protocol))
    assert event is None
    assert note.startswith("refused: the pickle is not plain data, it asks for ")
    assert "\n" not in note
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("shared", [False, True])
def test_every_pickler_tells_the_same(protocol: int, shared: bool) -> None:
    """Python's keeps pairs in the memo, and takes one out that several entries have; PyTorch's does neither."""
    group = ("0", "default_pg")
    entries = [
        _entry(
            n,
            process_group=group if shared else (group[0], group[1]),
            frames=[{"name": "f", "filename": "a" * n, "line": n}],
        )
        for n in (1, 2, 3)
    ]
    event, note = _read(pickle.dumps(_dump(*entries), protocol))
    expected, _ = _read(_json(_dump(*entries)), "rank_3.json")
    assert event is not None and expected is not None and not note
    assert [replace(e, frames=()) for e in event.entries] == list(expected.entries)
    assert [e.frames[0].line for e in event.entries] == [1, 2, 3]
    assert event.groups == expected.groups


def test_memo_bomb_and_depth_bomb_are_sentences() -> None:
    for data in (
        b"\x80\x02]r\xff\xff\xff\x7f.",
        b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b".",
        b"[" * 500_000,
        b"",
        b"hello",
        b"\x80\x02N.",
    ):
        event, note = _read(data)
        assert event is None or not event.entries
        assert note and "\n" not in note


def test_torn_pickle_is_read_as_far_as_it_goes() -> None:
    data = pickle.dumps(_dump(*(_entry(n) for n in range(1, 101))), 2)
    for share in (0.95, 0.5, 0.3):
        event, note = _read(data[: int(len(data) * share)])
        assert event is not None
        assert len(event.entries) > 90 * share - 5
        assert note.startswith("cut short")


def test_torn_json_gives_its_whole_entries() -> None:
    data = _json(_dump(*(_entry(n) for n in range(1, 51))))
    event, note = _read(data[: len(data) // 2])
    assert event is not None and len(event.entries) > 10
    assert note.startswith("cut short")


def test_seq_ids_as_text_and_odd_backends() -> None:
    names = ("ncclx:all_reduce", "all_reduce", "xccl:a:b", "nccl2:send 0->1", "nccl:recv 1<-?")
    entries = [_entry(n, profiling_name=name) for n, name in enumerate(names, 1)]
    entries[0]["collective_seq_id"] = "1"
    event, note = _read(pickle.dumps(_dump(*entries), 2))
    assert event is not None and not note
    assert [e.backend for e in event.entries] == ["ncclx", "", "xccl", "nccl2", "nccl"]
    assert event.entries[3].call.root == 1
    assert event.entries[4].call.root is None


def test_recorder_that_was_off_says_so() -> None:
    event, note = _read(pickle.dumps(_dump(), 2))
    assert event is not None and "recorder was off" in note


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("fr_rank_7", 7),
        ("logs/comm_lib_trace_rank_12", 12),
        ("rank_3.json", 3),
        ("host-5/_dump_fr_trace_json_rank0.json", 0),
        ("node02_nccl_trace_rank_9.gz", 9),
        ("trace_4", 4),
        ("trace", None),
    ],
)
def test_rank_is_in_the_file_name(path: str, rank: int | None) -> None:
    assert recorder.rank_of(path) == rank
