"""A job that somebody ends while it works well is no hang, wherever its ranks stand at that moment."""

import json
from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.model.report import Status

STACKS = [
    {"rank": 0, "pid": 10, "frames": [["train.py", 40, "load"]]},
    {"rank": 1, "pid": 11, "frames": [["torch/distributed/distributed_c10d.py", 3068, "all_reduce"], ["train.py", 92, "step"]]},
]  # fmt: skip


@pytest.mark.parametrize("ended", ["SIGTERM", None])
def test_rank_elsewhere_when_the_job_was_ended(tmp_path: Path, ended: str | None) -> None:
    stacks = [
        {**s, "frames": [{"filename": f, "line": n, "name": w} for f, n, w in s["frames"]]}
        for s in STACKS
    ]
    note = {"nccldoctor": "snapshot", "schema": 1, "host": "n1", "stacks": stacks}
    (tmp_path / "evidence.json").write_text(json.dumps(note))
    run = {"nccldoctor": "snapshot", "schema": 1, "host": "n1", "stopped_by": ended}
    (tmp_path / "run.json").write_text(json.dumps(run))
    verdict = doctor.examine([str(tmp_path)]).verdict
    assert verdict.status is (Status.UNKNOWN if ended else Status.HUNG), verdict.headline
