"""However the run is ended from outside, the job ends with it."""

import signal
import time

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


def test_a_second_ctrl_c_ends_all_at_once(tmp_path):
    folder = tmp_path / "run"
    process = start(folder, "--nproc", "2", "--grace", "1000", str(JOB), "stubborn")
    wait_until_ready(process)
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    job = finish(process, folder)
    assert job.code == 130
    job.assert_nothing_left()
