"""Dumps of older and of other recorders say the same: each transformation gives a sample the fields that one wrote."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nccldoctor import doctor

SAMPLES = Path(__file__).parents[2] / "sample_logs"
Dump = dict[str, Any]


def _entries(dump: Dump, change: Callable[[Dump], Dump], **top: Any) -> Dump:
    return {**dump, "entries": [change(entry) for entry in dump["entries"]], **top}


def _without(*names: str) -> Callable[[Dump], Dump]:
    return lambda entry: {k: v for k, v in entry.items() if k not in names}


def _before_2_8(dump: Dump) -> Dump:
    """Format 2.4 of PyTorch 2.5 to 2.7: no threads, no library version."""
    shorter = _entries(dump, _without("thread_id", "thread_name"), version="2.4")
    return {k: v for k, v in shorter.items() if k not in ("comm_lib_version", "nccl_version")}


def _before_2_5(dump: Dump) -> Dump:
    """Format 2.1 of PyTorch 2.4: no counters of the groups, no time-outs."""
    shorter = _entries(_before_2_8(dump), _without("timeout_ms"), version="2.1")
    return {k: v for k, v in shorter.items() if k != "pg_status"}


def _seconds_in_json(dump: Dump) -> Dump:
    return _entries(
        dump, lambda e: {k: 0 if v is None else v for k, v in e.items() if k != "frames"}
    )


def _named(backend: str) -> Callable[[Dump], Dump]:
    def rename(entry: Dump) -> Dump:
        name = entry["profiling_name"].partition(":")[2]
        return {**entry, "profiling_name": f"{backend}:{name}"}

    return lambda dump: _entries(dump, rename)


FORMS: dict[str, Callable[[Dump], Dump]] = {
    "2.4 (PyTorch 2.5-2.7)": _before_2_8,
    "2.1 (PyTorch 2.4)": _before_2_5,
    "XPU": _named("xccl"),
    "ncclx": _named("ncclx"),
    "MUSA": _named("mccl"),
    "Ascend": _named("hccl"),
}


@pytest.mark.parametrize("as_json", [False, True], ids=["pickle", "JSON"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("folder", "code", "ranks"),
    [("recorder-p2p-circle", "COLL04", (0, 1)), ("recorder-slow-rank", "HANG03", (2,))],
)
def test_same_verdict(
    folder: str, code: str, ranks: tuple[int, ...], form: str, as_json: bool, tmp_path: Path
) -> None:
    for file in sorted((SAMPLES / folder).iterdir()):
        dump = FORMS[form](pickle.loads(file.read_bytes()))  # noqa: S301  (the project's own sample)
        data = json.dumps(_seconds_in_json(dump)).encode() if as_json else pickle.dumps(dump, 2)
        (tmp_path / file.name).write_bytes(data)
    found = {f.code: f.ranks for f in doctor.examine([str(tmp_path)]).findings}
    assert found.get(code) == ranks, found
