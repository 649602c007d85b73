"""A rank that is stopped for a moment, as py-spy stops it while it looks, is still waited for; one that stays stopped is not."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nccldoctor.collect import gate
from nccldoctor.collect.intake import Intake

RANK = """
import json, os, socket, sys
link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
link.bind("")
say = lambda **what: link.sendto(json.dumps({"pid": os.getpid(), **what}).encode(), "\\0" + sys.argv[1])
say(kind="status", rank=0)
assert json.loads(link.recv(4096))["do"] == "dump"
open(sys.argv[2] + "/fr_rank_0", "w").write("what it recorded")
say(kind="dumped")
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[tuple[Intake, int]]:
    """An intake and a rank of its, which has said that it is there."""
    intake = Intake(tmp_path, f"test.{os.getpid()}.{tmp_path.name}", limit_bytes=1 << 20)
    intake.start()
    rank = subprocess.Popen([sys.executable, "-c", RANK, intake.address, str(tmp_path)])
    while rank.pid not in intake.ranks:
        assert rank.poll() is None
        time.sleep(0.02)
    yield intake, rank.pid
    rank.kill()
    rank.wait()
    intake.finish(5)


@pytest.mark.parametrize("comes_back", [True, False])
def test_only_a_rank_that_stays_stopped_is_given_up(
    comes_back: bool, job: tuple[Intake, int], tmp_path: Path
) -> None:
    intake, pid = job
    os.kill(pid, signal.SIGSTOP)
    go_on = threading.Timer(0.7, lambda: os.kill(pid, signal.SIGCONT))
    if comes_back:
        go_on.start()
    began = time.monotonic()
    found = gate.recorder_dumps(tmp_path, intake, list(intake.ranks.values()), 60.0)
    assert (found["0"] == "fr_rank_0") is comes_back
    assert time.monotonic() - began < 60.0, "it was waited for to the end"
