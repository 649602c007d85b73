"""Whole commands, ranks that a launcher has started already, limits of the log volume, and a full disk."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run.watched_job import JOB, environment, finish, needs_torch, run, start

pytestmark = needs_torch
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


def test_torchruns_exit_code_is_the_ranks(tmp_path):
    folder = tmp_path / "run"
    job = finish(start(folder, "--", *TORCHRUN, str(JOB), "exit"), folder)
    assert job.code == 7
    assert (job.verdict["code"], job.verdict["ranks"]) == ("CRASH01", [1])
    job.assert_nothing_left()


def test_a_plain_command_keeps_its_exit_code(tmp_path):
    folder = tmp_path / "run"
    job = finish(start(folder, "--", "sh", "-c", "echo hello; exit 3"), folder)
    assert job.code == 3
    assert job.output == "hello\n"


def test_inside_a_launcher_it_watches_its_own_rank(tmp_path):
    """torchrun starts two nccldoctors; each watches its rank, and rank 0 reports on both."""
    folder = tmp_path / "run"
    doctor = ("-m", "nccldoctor", "run", "--run-dir", str(folder), str(JOB), "healthy")
    done = subprocess.run(
        [*TORCHRUN, *doctor], env=environment(), cwd=tmp_path, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    assert (folder / "run_rank_0.json").exists() and (folder / "run_rank_1.json").exists()
    assert b"was started by torchrun already" in done.stderr
    assert done.stderr.count(b"report.html") == 1


def test_ranks_of_slurm_watch_themselves_and_wait_for_each_other(tmp_path):
    """srun starts one nccldoctor a rank; rank 1 sleeps, rank 0 alone is patient, and is called by the other."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    folder = tmp_path / "run"
    jobs = []
    for rank in ("0", "1"):
        patience = "300" if rank == "0" else "4"
        jobs.append(
            start(
                folder,
                *("--symmetric-timeout", patience, str(JOB), "sleep"),
                SLURM_PROCID=rank,
                SLURM_LOCALID=rank,
                SLURM_NTASKS="2",
                SLURM_NTASKS_PER_NODE="2",
                SLURM_NNODES="1",
                RANK=rank,
                WORLD_SIZE="2",
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port,
            )
        )
    first, second = (finish(process, folder) for process in jobs)
    assert (first.code, second.code) == (124, 124)
    assert "was started by Slurm already" in first.errors
    assert "says)" in first.errors
    assert (folder / "evidence_rank_0.json").exists() and (folder / "evidence_rank_1.json").exists()
    assert (first.verdict["code"], first.verdict["ranks"]) == ("HANG01", [1])
    assert not (folder / ".nccldoctor").exists()
    first.assert_nothing_left()


def test_accelerates_exit_code_is_the_ranks(tmp_path):
    tool = Path(sys.executable).with_name("accelerate")
    if not tool.exists():
        pytest.skip("accelerate is not installed")
    options = ("--multi_gpu", "--num_processes=2", "--num_machines=1", "--mixed_precision=no")
    more = ("--dynamo_backend=no", "--main_process_port=0", str(JOB), "exit")
    folder = tmp_path / "run"
    job = finish(start(folder, "--", str(tool), "launch", *options, *more), folder)
    assert job.code == 7
    assert (job.verdict["code"], job.verdict["ranks"]) == ("CRASH01", [1])
    job.assert_nothing_left()


def test_output_beyond_the_limit_keeps_head_and_tail(tmp_path):
    job = run(tmp_path / "run", "flood", "--log-limit", str(8e6 / (1 << 30)))
    assert job.code == 0
    text = (job.folder / "rank_0.out").read_text()
    assert len(text) < 3e6
    assert "line 0 " in text and "line 39999 " in text
    assert "bytes left out here" in text
    assert job.output.count("line ") == 80000


def test_a_full_disk_costs_no_exit_code(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("a small tmpfs cannot be mounted here")
    try:
        job = run(small / "run", "flood")
        assert job.code == 0
        assert job.output.count("line ") == 80000
        assert "not kept" in job.errors
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_folder_that_cannot_be_written_is_said_so(tmp_path):
    job = finish(start(tmp_path / "run", "--run-dir", "/proc/nowhere", str(JOB)), tmp_path / "run")
    assert job.code == 2
    assert "--run-dir" in job.errors
    assert list(tmp_path.iterdir()) == []


def test_logs_in_a_place_of_the_users_own_are_read_too(tmp_path):
    folder = tmp_path / "run"
    own = tmp_path / "own_%h_%p.log"
    line = "host:{0}:{0} [0] NCCL INFO NCCL version 2.28.9+cuda13.0"
    command = ("sh", "-c", f"echo '{line.format(7)}' > {tmp_path}/own_host_7.log")
    job = finish(start(folder, "--", *command, NCCL_DEBUG_FILE=str(own)), folder)
    assert job.code == 0
    inputs = json.loads((folder / "report.json").read_text())["inputs"]
    assert str(tmp_path / "own_host_7.log") in [i["path"] for i in inputs]


@pytest.mark.slow
def test_ranks_that_a_script_spawns_are_watched_too(tmp_path):
    folder = tmp_path / "run"
    script = JOB.with_name("spawning_job.py")
    command = (sys.executable, str(script), str(tmp_path / "store"))
    job = finish(start(folder, "--", *command), folder)
    assert job.code == 124
    assert (job.verdict["code"], job.verdict["ranks"]) == ("HANG01", [1])
    job.assert_nothing_left()
