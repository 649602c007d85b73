"""Starts jobs under `nccldoctor run` in processes of their own, as a user does."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nccldoctor.collect import procfs

ROOT = Path(__file__).parents[2]
JOB = ROOT / "tests" / "data" / "jobs" / "gloo_job.py"
QUICK = ("--watch-every", "0.5", "--hang-timeout", "4", "--symmetric-timeout", "6", "--grace", "4")

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
)


def environment() -> dict[str, str]:
    """This environment without what a launcher around the tests may have left in it."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NCCL", "SLURM_", "OMPI_"))}
    kept["PYTHONPATH"] = str(ROOT)
    kept["OMP_NUM_THREADS"] = "1"
    return kept


@dataclass
class Job:
    """A job that has ended."""

    code: int
    output: str
    errors: str
    folder: Path

    def note(self, name: str = "run.json") -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / name).read_text())
        return loaded

    @property
    def verdict(self) -> dict[str, Any]:
        verdict: dict[str, Any] = json.loads((self.folder / "report.json").read_text())["verdict"]
        return verdict

    def assert_nothing_left(self) -> None:
        assert left(self.folder) == []


def left(folder: Path, seconds: float = 10.0) -> list[list[str]]:
    """Command lines of the job's processes that are still there after some patience."""
    deadline = time.monotonic() + seconds
    while True:
        found = procfs.marked("NCCLDOCTOR_FOLDER", str(folder))
        if not found or time.monotonic() > deadline:
            return [procfs.command(pid) for pid in found]
        time.sleep(0.1)


def start(
    folder: Path, *words: str, within: Sequence[str] = (), **more: str
) -> "subprocess.Popen[str]":
    """`nccldoctor run` with these words after its own options for tests, `within` another command where one is given."""
    return subprocess.Popen(
        [
            *within,
            sys.executable,
            "-m",
            "nccldoctor",
            "run",
            "--run-dir",
            str(folder),
            *QUICK,
            *words,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder.parent,
        env={**environment(), **more},
    )


def finish(job: "subprocess.Popen[str]", folder: Path) -> Job:
    output, errors = job.communicate(timeout=120)
    return Job(job.returncode, output, errors, folder)


def run(folder: Path, mode: str, *options: str) -> Job:
    """Two ranks of the Gloo job in this mode, to their end."""
    return finish(start(folder, "--nproc", "2", *options, str(JOB), mode), folder)


def wait_until_ready(job: "subprocess.Popen[str]") -> None:
    """Returns when both ranks have said that they are ready."""
    assert job.stdout is not None
    ready = 0
    for line in job.stdout:
        ready += line.count("ready")  # ranks write into one stream, and two may share a line
        if ready == 2:
            return
    raise AssertionError("the job ended before it was ready")
