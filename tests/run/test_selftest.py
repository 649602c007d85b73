"""`nccldoctor selftest` on this machine, with two faults; and what it says of names that it does not know."""

import subprocess
import sys

from tests.run.watched_job import ROOT, environment, needs_torch


def selftest(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "nccldoctor", "selftest", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        check=False,
    )


@needs_torch
def test_two_faults_are_named(tmp_path):
    done = selftest("--device", "cpu", "--only", "exit,sleep", "--run-dir", str(tmp_path / "kept"))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.strip()}
    assert rows["sleep"][:2] == ["HANG01", "1"]
    assert rows["exit"][:2] == ["CRASH01", "1"]
    assert float(rows["sleep"][2]) > 0
    assert (tmp_path / "kept" / "sleep" / "report.html").exists()


def test_an_unknown_fault_is_said():
    done = selftest("--only", "flood")
    assert done.returncode != 0
    assert "no fault is named flood" in done.stderr or "PyTorch" in done.stderr
    assert "sleep" in selftest("--list").stdout
