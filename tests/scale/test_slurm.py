"""Slurm jobs as readers: a whole Slurm of one node, started for the test on loopback, and dask-jobqueue on it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from nccldoctor import doctor
from nccldoctor.cli import main
from nccldoctor.report import to_json

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "sample_logs" / "2.28.9-nodes4-skip"
DAEMONS = ("munged", "slurmctld", "slurmd")
SBIN = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin"

pytestmark = pytest.mark.filterwarnings("ignore")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _config(folder: Path, host: str) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return f"""
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={_free_port()}
SlurmdPort={_free_port()}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/d.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=1 RealMemory={memory * 9 // 10} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP OverSubscribe=FORCE:4
"""


def _empty_the_queue() -> None:
    """Ends all jobs, and waits until nothing of them runs: steps outlive the daemons."""
    for _ in range(40):
        subprocess.run(["scancel", "--user", "root"], check=False, stderr=subprocess.DEVNULL)
        left = subprocess.run(["squeue", "-h"], capture_output=True, check=False).stdout
        if not left.strip():
            return
        time.sleep(0.5)


def _kill_steps(config: Path) -> None:
    """Ends what carries out jobs of this Slurm and no other: it waits for its daemons for hours."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name = (process / "comm").read_text().strip()
            ours = f"SLURM_CONF={config}".encode() in (process / "environ").read_bytes().split(
                b"\0"
            )
            if name == "slurmstepd" and ours:
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A controller and a node that take jobs."""
    for name in ("state", "spool"):
        (tmp_path / name).mkdir()
    key = tmp_path / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    host = socket.gethostname().split(".")[0]
    config = tmp_path / "slurm.conf"
    config.write_text(_config(tmp_path, host))
    monkeypatch.setenv("SLURM_CONF", str(config))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    munged = ["--key-file", key, "--socket", tmp_path / "munge.socket", "--pid-file", tmp_path / "munge.pid"]  # fmt: skip
    munged += ["--log-file", tmp_path / "munge.log", "--seed-file", tmp_path / "munge.seed"]
    words = (
        ["munged", "--foreground", "--force", *map(str, munged)],
        ["slurmctld", "-D", "-f", str(config)],
        ["slurmd", "-D", "-f", str(config), "-N", host],
    )
    running = []
    try:
        for daemon in words:
            program = shutil.which(daemon[0], path=SBIN)
            assert program
            with (tmp_path / f"{daemon[0]}.out").open("wb") as out:
                running.append(subprocess.Popen([program, *daemon[1:]], stdout=out, stderr=out))
            time.sleep(0.5)
        for _ in range(60):
            told = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True, check=False)  # fmt: skip
            if told.stdout.strip() == "idle":
                break
            time.sleep(0.5)
        else:
            pytest.skip(f"no Slurm comes up here: {told.stdout}{told.stderr}")
        yield
    finally:
        _empty_the_queue()
        for process in reversed(running):
            process.send_signal(signal.SIGTERM)
        for process in reversed(running):
            try:
                process.wait(4)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        _kill_steps(config)


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("dask_jobqueue") is None
    or not all(shutil.which(name, path=SBIN) for name in DAEMONS)
    or os.geteuid() != 0,
    reason="dask-jobqueue or Slurm is absent, or this is not root, as which alone a node can be started",
)
def test_slurm_jobs_give_the_same_bytes(slurm: None, tmp_path: Path) -> None:
    words = ["parse", str(SAMPLE), "--no-html", "--json", "-", "--engine", "dask", "--slurm", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "nccldoctor", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr[-2000:]
    assert done.stdout == to_json(doctor.examine([str(SAMPLE)]))


def test_options_that_do_not_fit_are_refused() -> None:
    for words in (
        ["--slurm", "2"],
        ["--engine", "dask", "--slurm", "2", "--scheduler", "tcp://127.0.0.1:1"],
    ):
        result = CliRunner().invoke(main, ["parse", str(SAMPLE), *words])
        assert result.exit_code == 2 and "--scheduler" in result.output
