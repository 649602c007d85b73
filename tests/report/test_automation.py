"""The examples of docs/automation.md do what they say, as far as this can be tried without Slurm, Kubernetes or GitHub."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"

LOG = """\
node-1:10:10 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
node-1:10:10 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>
node-1:10:11 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xab - Init START
node-1:10:11 [0] init.cc:1000 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which `nccldoctor` is this checkout."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    program = bin_folder / "nccldoctor"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nccldoctor "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


def _verdict(folder: Path) -> str:
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return str(report["verdict"]["code"])


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.sh")), ids=lambda p: p.name)
def test_scripts_parse(script: Path) -> None:
    shell = "bash" if "bash" in script.read_text(encoding="utf-8").splitlines()[0] else "sh"
    assert subprocess.run([shell, "-n", str(script)], check=False).returncode == 0


def test_slurm_epilog(tmp_path: Path, environment: dict[str, str]) -> None:
    if shutil.which("timeout") is None:
        pytest.skip("no timeout command here")
    logs = tmp_path / "logs" / "77"
    logs.mkdir(parents=True)
    (logs / "nccl_debug_node-1_10.log").write_text(LOG, encoding="utf-8")
    job = {**environment, "NCCLDOCTOR_LOGS": str(tmp_path / "logs"), "SLURM_JOB_ID": "77"}
    epilog = ["bash", str(EXAMPLES / "slurm-epilog.sh")]
    subprocess.run(epilog, env={**job, "SLURM_JOB_EXIT_CODE": "0"}, check=True)
    assert not (logs / "report.json").exists()
    subprocess.run(epilog, env={**job, "SLURM_JOB_EXIT_CODE": "256"}, check=True)
    assert _verdict(logs) == "INIT02"
    assert (logs / "report.html").stat().st_size > 1000


def test_sidecar_reports_when_it_is_stopped(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "nccl_debug_node-1_10.log").write_text(LOG, encoding="utf-8")
    (tmp_path / "bin").rename(tmp_path.parent / f"{tmp_path.name}-bin")
    path = environment["PATH"].replace(str(tmp_path / "bin"), f"{tmp_path}-bin")
    sidecar = subprocess.Popen(
        ["sh", str(EXAMPLES / "sidecar.sh")],
        env={**environment, "PATH": path, "EVIDENCE": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    time.sleep(0.5)
    assert sidecar.poll() is None
    sidecar.send_signal(signal.SIGTERM)
    out, _ = sidecar.communicate(timeout=60)
    assert sidecar.returncode == 0
    assert _verdict(tmp_path) == "INIT02"
    assert "INIT02" in out


def test_github_step(tmp_path: Path, environment: dict[str, str]) -> None:
    text = (EXAMPLES / "github-action.yml").read_text(encoding="utf-8")
    found = re.search(r"name: Diagnose\n.*?run: \|\n(?P<script>(?: {10}[^\n]*\n)+)", text, re.S)
    assert found
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "nccl.log").write_text(LOG, encoding="utf-8")
    summary = tmp_path / "summary"
    subprocess.run(
        ["bash", "-e", "-c", found["script"]],
        cwd=tmp_path,
        env={**environment, "GITHUB_STEP_SUMMARY": str(summary)},
        check=True,
    )
    assert "INIT02" in summary.read_text(encoding="utf-8")


def test_gitlab_step(tmp_path: Path, environment: dict[str, str]) -> None:
    text = (EXAMPLES / "gitlab-ci.yml").read_text(encoding="utf-8")
    found = re.search(r"after_script:\n    - (.*)\n", text)
    assert found
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "nccl.log").write_text(LOG, encoding="utf-8")
    done = subprocess.run(
        ["bash", "-e", "-c", found[1]],
        cwd=tmp_path,
        env={**environment, "CI_JOB_STATUS": "failed"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert "INIT02" in done.stdout
