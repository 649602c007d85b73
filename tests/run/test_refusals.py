"""Machines that refuse: a read-only /tmp, no home, files that may not grow."""

import shutil
import subprocess

import pytest

from tests.run.watched_job import JOB, finish, needs_torch, start

pytestmark = needs_torch
ALONE_WRITABLE = 'mount --bind "$0" "$0" && mount --rbind /tmp /tmp && mount -o remount,ro,bind /tmp && exec "$@"'


def test_tmp_is_read_only_and_there_is_no_home(tmp_path):
    within = ("unshare", "--mount", "sh", "-c", ALONE_WRITABLE, str(tmp_path))
    if not shutil.which("unshare") or subprocess.run([*within, "true"], capture_output=True).returncode:  # fmt: skip
        pytest.skip("mounts of our own are not allowed here")
    refused = subprocess.run([*within, "touch", "/tmp/there"], capture_output=True)
    if refused.returncode == 0:
        pytest.skip("/tmp stays writable")
    folder = tmp_path / "run"
    words = ("env", "--unset=HOME", "--unset=TMPDIR", "--unset=TMP", "--unset=TEMP")
    job = finish(start(folder, "--nproc", "2", str(JOB), "exit", within=(*within, *words)), folder)
    assert job.code == 7, job.errors
    assert (job.verdict["code"], job.verdict["ranks"]) == ("CRASH01", [1])
    assert (folder / "report.html").exists()
    job.assert_nothing_left()


def test_files_that_may_not_grow_cost_no_exit_code(tmp_path):
    """As on a full disk or beyond a quota: writing fails, and the job goes on."""
    if not shutil.which("prlimit"):
        pytest.skip("no prlimit here")
    folder = tmp_path / "run"
    within = ("prlimit", f"--fsize={1 << 20}")
    job = finish(start(folder, "--nproc", "2", str(JOB), "flood", within=within), folder)
    assert job.code == 0
    assert job.output.count("line ") == 80000
    assert "not kept" in job.errors
    assert (folder / "rank_0.out").stat().st_size <= 1 << 20
