"""However the run is ended from outside, the job ends with it."""

import signal

import pytest

from tests.run.watched_job import JOB, finish, left, needs_torch, start, wait_until_ready

pytestmark = needs_torch


@pytest.mark.parametrize(
    ("mode", "number"),
    [("wait", signal.SIGINT), ("wait", signal.SIGTERM), ("stubborn", signal.SIGTERM)],
)
def test_signals_are_passed_on(tmp_path, mode, number):
    folder = tmp_path / "run"
    process = start(folder, "--nproc", "2", str(JOB), mode)
    wait_until_ready(process)
    process.send_signal(number)
    job = finish(process, folder)
    assert job.code == 128 + number
    assert job.note()["stopped_by"] == signal.Signals(number).name
    assert job.verdict["status"] != "hung"
    job.assert_nothing_left()


def test_the_job_dies_with_nccldoctor(tmp_path):
    folder = tmp_path / "run"
    process = start(folder, "--nproc", "2", str(JOB), "stubborn")
    wait_until_ready(process)
    process.kill()
    process.communicate(timeout=30)
    assert left(folder) == []
