"""A rank that ends without an error while others still call collectives is named, not those that lost it."""

import json
from pathlib import Path

from nccldoctor import doctor
from nccldoctor.model.report import Report

LOST = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/home/user/train.py", line 17, in step\n'
    "[rank{0}]:     dist.all_reduce(loss)\n"
    "[rank{0}]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:57243. This is typically caused by a remote worker crashing.\n"
)


def _report(folder: Path, codes: dict[int, int], **outputs: str) -> Report:
    exits = [
        {
            "rank": rank,
            "local_rank": rank,
            "pid": 9600 + rank,
            "exit_code": code,
            "first": code == 1,
            "by_launcher": code == -15,
            "host": "n1",
        }
        for rank, code in codes.items()
    ]
    note = {"nccldoctor": "snapshot", "schema": 1, "host": "n1", "exits": exits}
    (folder / "run.json").write_text(json.dumps(note))
    for name, text in outputs.items():
        (folder / f"{name}.out").write_text(text)
    return doctor.examine([str(folder)])


def test_one_returns_early(tmp_path: Path) -> None:
    found = _report(
        tmp_path, {0: -15, 1: 1, 2: 0, 3: 1}, rank_1=LOST.format(1), rank_3=LOST.format(3)
    ).verdict
    assert (found.code, found.ranks) == ("HANG01", (2,))
    assert "exit code 0" in found.headline and "train.py:17 in step" in found.headline


def test_one_calls_once_more_than_most(tmp_path: Path) -> None:
    found = _report(tmp_path, {0: 0, 1: 0, 2: 0, 3: 1}, rank_3=LOST.format(3)).verdict
    assert (found.code, found.ranks) == ("HANG01", (3,))


def test_a_rank_that_failed_by_itself_comes_first(tmp_path: Path) -> None:
    error = (
        LOST.format(1).rpartition("[rank1]: RuntimeError")[0] + "[rank1]: ValueError: bad batch\n"
    )
    found = _report(tmp_path, {0: 0, 1: 1, 2: 1}, rank_1=error, rank_2=LOST.format(2)).verdict
    assert (found.code, found.ranks) == ("CRASH01", (1,))
