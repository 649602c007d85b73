"""What a rank carries inside itself, seen from a launcher in this very process."""

import subprocess
import sys
import time

from nccldoctor.collect import observe, stacks
from nccldoctor.collect.environment import instrument
from nccldoctor.collect.intake import Intake
from nccldoctor.collect.session import new_run
from tests.run.watched_job import environment


def launch(tmp_path, program, **more):
    """Starts a Python program as rank 3 and waits for its first report."""
    run = new_run()
    intake = Intake(tmp_path, run, limit_bytes=1 << 20, echo=False)
    intake.start()
    environ = {**environment(), "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", **more}
    job = instrument(environ, [], folder=tmp_path, run=run, address=intake.address, every=0.2)
    process = subprocess.Popen([sys.executable, "-c", program], env=job)
    deadline = time.monotonic() + 30
    while not any(s.status.get("frame") for s in intake.ranks.values()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process, intake


SLEEP = "import time\ndef doze():\n    time.sleep(100)\ndoze()"


def test_a_rank_tells_where_it_stands(tmp_path):
    process, intake = launch(tmp_path, SLEEP)
    try:
        deadline = time.monotonic() + 30
        while intake.ranks[process.pid].status["frame"][0] != "doze":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        state = intake.ranks[process.pid]
        assert (state.rank, state.local_rank) == (3, 1)
        (look,) = observe.look_at_ranks(intake, closely=True)
        assert (look.rank, look.stage, look.waiting) == (3, "python", False)
    finally:
        process.kill()
        process.wait()
        intake.finish(5)


def test_an_evaluation_is_told(tmp_path):
    process, intake = launch(tmp_path, SLEEP.replace("doze", "evaluate"))
    try:
        deadline = time.monotonic() + 30
        while intake.ranks[process.pid].status["phase"] != "evaluating":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (look,) = observe.look_at_ranks(intake, closely=False)
        assert (look.phase, look.place) == ("evaluating", "<string>:3 in evaluate")
    finally:
        process.kill()
        process.wait()
        intake.finish(5)


def test_faulthandler_answers_where_ptrace_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(stacks, "py_spy", lambda: None)
    process, intake = launch(tmp_path, SLEEP)
    try:
        (entry,) = stacks.of_ranks(observe.living(intake), tmp_path, 5.0)
        assert entry["origin"] == "faulthandler"
        assert [f["name"] for f in entry["frames"]][-1] == "<module>"
    finally:
        process.kill()
        process.wait()
        intake.finish(5)


def test_a_handler_of_the_job_is_not_touched(tmp_path):
    program = "import signal\nsignal.signal(signal.SIGUSR2, lambda *_: None)\n" + SLEEP
    process, intake = launch(tmp_path, program)
    try:
        deadline = time.monotonic() + 30
        while intake.ranks[process.pid].status["signal"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
        intake.finish(5)


def test_the_users_own_sitecustomize_still_runs(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 'here'\n")
    environ = {**environment(), "PYTHONPATH": str(own)}
    job = instrument(environ, [], folder=tmp_path, run="r", address="nobody")
    program = "print(mine)"
    done = subprocess.run([sys.executable, "-c", program], env=job, capture_output=True, text=True)
    assert done.stdout == "here\n"


def test_helpers_of_a_rank_are_no_ranks(tmp_path):
    """A data loader's or a compiler's process inherits RANK; it must not report as the rank."""
    program = (
        "import subprocess, sys, time\n"
        "subprocess.run([sys.executable, '-c', 'import time; time.sleep(0.7)'])\n"
        "time.sleep(0.5)"
    )
    process, intake = launch(tmp_path, program)
    process.wait(30)
    intake.finish(5)
    assert list(intake.ranks) == [process.pid]


def test_fork_after_start_is_harmless(tmp_path):
    program = (
        "import os, time\npid = os.fork()\ntime.sleep(0.3)\nif pid: print(os.wait()[1], flush=True)"
    )
    process, intake = launch(tmp_path, program)
    assert process.wait(30) == 0
    intake.finish(5)
