"""The probe itself, with real processes over Gloo: healthy, a wrong value, a late rank, a rank that hangs."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nccldoctor.collect.probe import beside
from nccldoctor.errors import DoctorError

pytest.importorskip("torch")
ROOT = Path(__file__).parents[2]
QUIET = {"OMP_NUM_THREADS": "1", "NCCL_DEBUG": "WARN"}


def _probe(folder: Path, *options: str) -> tuple[int, dict[str, Any], dict[str, Any], str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    command = [sys.executable, "-m", "nccldoctor", "probe", "--device", "cpu"]
    done = subprocess.run(
        [*command, "--run-dir", str(folder), "--max-size", "1K", *options],
        cwd=ROOT,
        env={**environment, **QUIET},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stdout + done.stderr
    assert (folder / "probe.json").exists(), said
    body = json.loads((folder / "probe.json").read_text())
    return done.returncode, body["probe"], json.loads((folder / "report.json").read_text()), said


def test_healthy(tmp_path: Path) -> None:
    code, probe, report, said = _probe(tmp_path)
    assert code == 0, said
    assert report["verdict"]["status"] == "healthy", said
    assert probe["failures"] == [] and probe["skipped"] == []
    ops = {row["op"] for row in probe["rows"]}
    assert ops >= {"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "SendRecv"}
    assert ops >= {"Gather", "Scatter", "AlltoAll", "Barrier"}
    assert all(row["wrong"] == 0 for row in probe["rows"])
    unchecked = {n["code"]: n["because"] for n in report["not_checked"]}
    assert "CPU" in unchecked["PERF01"], "what cannot be judged is said"
    assert (tmp_path / "report.html").exists()


def test_planted_wrong_value(tmp_path: Path) -> None:
    code, probe, report, said = _probe(tmp_path, "--plant", "wrong:1")
    assert code == 1, said
    assert report["verdict"]["code"] == "COLL06", said
    assert report["verdict"]["status"] == "failed"
    assert report["verdict"]["ranks"] == [1]
    assert "already alone" in report["verdict"]["headline"]
    assert {row["group"] for row in probe["rows"]} >= {"world", "single"}


def test_planted_slow_rank(tmp_path: Path) -> None:
    _, _, report, said = _probe(tmp_path, "--plant", "slow:1:10")
    assert report["verdict"]["code"] == "PERF01", said
    assert report["verdict"]["ranks"] == [1]


def test_planted_hang_is_killed_and_named(tmp_path: Path) -> None:
    code, probe, report, said = _probe(tmp_path, "--plant", "stuck:1", "--step-timeout", "6")
    assert code == 1, said
    assert report["verdict"]["code"] == "HW06", said
    assert report["verdict"]["ranks"] == [1]
    assert {f["kind"] for f in probe["failures"]} == {"stuck"}
    stack = (tmp_path / "ranks" / "probe-rank1.out").read_text()
    assert "measure.py" in stack, "the stack of a stuck rank is kept"


@pytest.mark.slow
def test_under_torchrun(tmp_path: Path) -> None:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    probe = ["-m", "nccldoctor", "probe", "--quick", "--device", "cpu", "--max-size", "1K"]
    done = subprocess.run(
        [sys.executable, *launcher, *probe, "--run-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    measured = json.loads((tmp_path / "probe.json").read_text())["probe"]
    assert measured["launched_by"] == "torchrun"
    assert [rank["rank"] for rank in measured["ranks"]] == [0, 1]


@pytest.mark.gpu
@pytest.mark.slow
def test_on_gpus(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    done = subprocess.run(
        [sys.executable, "-m", "nccldoctor", "probe", "--quick", "--run-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    body = json.loads((tmp_path / "probe.json").read_text())
    assert body["gpus"] and all(row["wrong"] == 0 for row in body["probe"]["rows"])


def test_reach_tells_open_refused_and_impossible() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert beside.reach("127.0.0.1", port) == ("connected", True)
    state, good = beside.reach("127.0.0.1", port)
    assert good and state.startswith("refused")
    assert not beside.reach("no-such-host.invalid", 1)[1]


def test_peers_from_the_lines_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(
        "h:1:1 [0] NCCL INFO Bootstrap: Using eth0:192.0.2.7<0>\n"
        "h:1:1 [0] NCCL WARN Connection closed by remote peer 192.0.2.7<40123>\n"
        "h:1:1 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>\n"
    )
    assert beside.peers_in_folder(tmp_path) == [("192.0.2.7", 40123)]


def test_peers_of_this_process() -> None:
    assert isinstance(beside.peers_of_process(os.getpid()), list)
    with pytest.raises(DoctorError, match="no process"):
        beside.peers_of_process(2**22 + 1)
