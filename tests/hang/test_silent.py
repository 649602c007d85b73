"""Outputs of torchrun alone: the rank that said nothing is named, not those that gave up waiting for it."""

from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.model.report import Report

TRACE = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/home/user/train.py", line 46, in step\n'
    "[rank{0}]:     dist.all_gather_object(found, mine)\n"
    "[rank{0}]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/{1}\n"
)
TIMEOUT = "unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete"
CLOSED = "pair.cc:553] Connection closed by peer [127.0.0.1]:51387. This is typically caused by a remote worker crashing."
WATCHDOG = (
    "[rank{0}]:[E1130 04:20:11.313575390 ProcessGroupNCCL.cpp:552] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=16, NumelOut=16, Timeout(ms)=600000) ran for 600021 milliseconds before "
    "timing out.\n"
)


def _report(folder: Path, *texts: str) -> Report:
    for rank, text in enumerate(texts):
        path = folder / "none_x1" / "attempt_0" / str(rank) / "stderr.log"
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return doctor.examine([str(folder)])


@pytest.mark.parametrize("how", [TIMEOUT, CLOSED])
def test_one_of_four(how: str, tmp_path: Path) -> None:
    texts = [TRACE.format(rank, how) if rank != 2 else "" for rank in range(4)]
    found = _report(tmp_path, *texts).verdict
    assert (found.code, found.ranks) == ("HANG01", (2,))
    assert "train.py:46 in step" in found.headline


def test_watchdogs_of_old(tmp_path: Path) -> None:
    found = _report(tmp_path, WATCHDOG.format(0), "", WATCHDOG.format(2)).verdict
    assert (found.code, found.ranks) == ("HANG01", (1,))


def test_all_gave_up(tmp_path: Path) -> None:
    found = _report(tmp_path, *(TRACE.format(rank, TIMEOUT) for rank in range(3))).verdict
    assert found.code == "HANG04"


def test_one_had_an_error_of_its_own(tmp_path: Path) -> None:
    own = (
        TRACE.format(1, TIMEOUT).rpartition("[rank1]: RuntimeError")[0]
        + "[rank1]: ValueError: bad batch\n"
    )
    found = _report(tmp_path, TRACE.format(0, CLOSED), own, TRACE.format(2, CLOSED)).verdict
    assert (found.code, found.ranks) == ("CRASH01", (1,))


def test_half_of_the_outputs(tmp_path: Path) -> None:
    """Nothing is known of ranks whose outputs are not there."""
    found = _report(tmp_path, TRACE.format(0, TIMEOUT)).verdict
    assert found.code == "HANG04"
