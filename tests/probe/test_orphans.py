"""A probe that is killed leaves no worker behind."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("torch")


def test_workers_end_with_the_probe(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nccldoctor", "probe", "--run-dir", str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as probe:
        workers = _workers(psutil.Process(probe.pid))
        probe.kill()
        probe.wait()
    assert workers
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive


def _workers(probe: psutil.Process) -> list[psutil.Process]:
    """The probe's workers, once they are there and have had time to begin."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = [
            p
            for p in probe.children(recursive=True)
            if "nccldoctor.collect.probe.worker" in p.cmdline()
        ]
        if len(found) >= 2 and all("torch" in "".join(_maps(p)) for p in found):
            return found
        time.sleep(0.2)
    return []


def _maps(process: psutil.Process) -> list[str]:
    """The files that a process has mapped: torch is among them once it is imported."""
    try:
        return [m.path for m in process.memory_maps()]
    except psutil.Error:
        return []
