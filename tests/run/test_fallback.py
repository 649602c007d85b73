"""The fallback ladder, with a stand-in for a broken layer: a job that dies unless one lever's variable is set."""

import json

import pytest

from nccldoctor.cli.after_run import hopeless
from nccldoctor.doctor import examine
from tests.run.watched_job import JOB, finish, needs_torch, start

pytestmark = needs_torch
SCRIPT = JOB.with_name("needs_lever.py")


def fall_back(folder, how, *words):
    process = start(folder, "--nproc", "2", "--fallback", how, str(SCRIPT), *words)
    return finish(process, folder)


def test_it_stops_at_the_lever_that_lets_the_job_through(tmp_path):
    job = fall_back(tmp_path / "run", "job", "die", "NCCL_P2P_DISABLE")
    assert job.code == 0
    beside = tmp_path / "run-fallback"
    assert sorted(f.name for f in beside.iterdir()) == ["no-p2p", "one-channel"]
    assert "goes through with NCCL_P2P_DISABLE=1" in job.errors
    assert "28 instead of 326 GB/s; it must not stay" in job.errors
    assert (job.verdict["code"], job.verdict["status"]) == ("HW08", "failed")
    assert "NVLink, PCIe" in job.verdict["headline"]
    assert job.verdict["ranks"] == [1]
    assert job.verdict["next"][0].startswith("export NCCL_P2P_DISABLE=1  # only until it is mended")
    report = json.loads((job.folder / "report.json").read_text())
    assert report["findings"][0]["consequences"][0] == "CRASH01"
    tried = json.loads((job.folder / "fallback.json").read_text())["fallback"]
    assert [t["exit_code"] for t in tried] == [1, 0]
    # After trouble the collectives are logged as well.
    again = json.loads((beside / "no-p2p" / "run.json").read_text())
    assert again["instrumented"]["NCCL_DEBUG_SUBSYS"].endswith(",COLL")
    job.assert_nothing_left()


def test_a_fault_of_the_program_is_not_tried_again(tmp_path):
    """The report of a run whose rank has raised an exception of its own, and of one that has died without a word."""
    exits = {"exits": [{"rank": 1, "pid": 7, "exit_code": 1, "first": True}]}
    note = json.dumps({"nccldoctor": "snapshot", "schema": 1, "host": "n", **exits})
    (tmp_path / "run.json").write_text(note)
    silent = examine([str(tmp_path)])
    (tmp_path / "rank_1.out").write_text(
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/x/train.py", line 9, in <module>\n'
        "[rank1]:     step()\n"
        "[rank1]: ValueError: bad batch\n"
    )
    raised = examine([str(tmp_path)])
    assert silent.verdict.code == raised.verdict.code == "CRASH01"
    assert hopeless(silent) is None
    assert hopeless(raised) == "a rank raised ValueError"


@pytest.mark.slow
def test_the_probe_climbs_without_the_job(tmp_path):
    job = fall_back(tmp_path / "run", "probe", "die", "NCCL_P2P_DISABLE")
    assert job.code == 1  # the job's own
    assert job.verdict["code"] == "CRASH01"
    probe = tmp_path / "run-fallback" / "probe"
    assert (probe / "report.json").exists()
    assert f"report {probe / 'report.html'}" in job.errors
