"""`nccldoctor watch` looks at a running job from outside and leaves it running."""

import json
import subprocess
import sys

from tests.run.test_wrapping import TORCHRUN
from tests.run.watched_job import JOB, environment, needs_torch, wait_until_ready


def watch(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "nccldoctor", "watch", *words],
        env=environment(),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )


@needs_torch
def test_a_hang_is_seen_and_left_alone(tmp_path):
    job = subprocess.Popen(
        [*TORCHRUN, str(JOB), "sleep"],
        env=environment(),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        wait_until_ready(job)
        folder = tmp_path / "run"
        limits = ("--every", "0.5", "--symmetric-timeout", "3")
        done = watch("--pid", str(job.pid), *limits, "--run-dir", str(folder), cwd=tmp_path)
        assert done.returncode == 1, done.stderr
        verdict = json.loads((folder / "report.json").read_text())["verdict"]
        assert (verdict["code"], verdict["ranks"]) == ("HANG01", [1])
        assert job.poll() is None
    finally:
        job.terminate()
        job.communicate(timeout=60)


def test_nothing_to_watch_is_said_so(tmp_path):
    assert watch(cwd=tmp_path).returncode == 2
    assert "no process" in watch("--pid", "999999999", cwd=tmp_path).stderr
    assert "RAS needs NCCL 2.24" in watch("--ras", "localhost:1", cwd=tmp_path).stderr
