"""Every way for a small Gloo job to go wrong: exit code, verdict, evidence, and that no process is left."""

import json

import pytest

from tests.run.watched_job import needs_torch, run

pytestmark = needs_torch


def test_healthy(tmp_path):
    job = run(tmp_path / "run", "healthy")
    assert job.code == 0
    assert job.verdict["status"] == "healthy"
    assert job.output.count("ready") == 2
    assert {e["rank"]: e["exit_code"] for e in job.note()["exits"]} == {0: 0, 1: 0}
    assert not (job.folder / "evidence.json").exists()
    job.assert_nothing_left()


@pytest.mark.parametrize(
    ("mode", "state", "codes", "ranks"),
    [
        ("sleep", "skewed", ("HANG01",), [1]),
        ("stop", "skewed", ("HANG01",), [1]),
        ("wrong_op", "symmetric", ("COLL01",), None),
    ],
)
def test_hang(tmp_path, mode, state, codes, ranks):
    job = run(tmp_path / "run", mode)
    assert job.code == 124
    assert job.note()["hang"]["state"] == state
    assert job.verdict["status"] == "hung"
    assert job.verdict["code"] in codes
    assert ranks is None or job.verdict["ranks"] == ranks
    evidence = job.note("evidence.json")
    assert [s["rank"] for s in evidence["stacks"] if s["frames"]] == [0, 1]
    assert [e["variables"]["RANK"] for e in evidence["environments"]] == ["0", "1"]
    assert (job.folder / "fr_rank_0").exists()
    job.assert_nothing_left()


def test_init_hang(tmp_path):
    job = run(tmp_path / "run", "late", "--init-timeout", "4")
    assert job.code == 124
    assert job.note()["hang"]["state"] == "init"
    assert (job.verdict["code"], job.verdict["ranks"]) == ("INIT01", [1])
    job.assert_nothing_left()


@pytest.mark.parametrize(
    ("mode", "code", "exit_code"),
    [("raise", 1, 1), ("exit", 7, 7), ("kill", 137, -9), ("segv", 139, -11)],
)
def test_crash(tmp_path, mode, code, exit_code):
    job = run(tmp_path / "run", mode)
    assert job.code == code
    first = [e for e in job.note()["exits"] if e["first"]]
    assert [(e["rank"], e["exit_code"]) for e in first] == [(1, exit_code)]
    assert job.verdict["code"] in ("CRASH01", "CRASH03")
    assert job.verdict["ranks"] == [1]
    assert job.note("evidence.json")["why"] == "a rank has failed"
    job.assert_nothing_left()


def test_children_of_ranks_do_not_outlive_the_job(tmp_path):
    job = run(tmp_path / "run", "fork")
    assert job.code == 0
    job.assert_nothing_left()


def test_saving_a_checkpoint_is_no_hang(tmp_path):
    job = run(tmp_path / "run", "checkpoint")
    assert job.code == 0
    assert job.note()["hang"] is None
    assert job.verdict["status"] == "healthy"


def test_a_checkpoint_beyond_its_time_is_told_as_one(tmp_path):
    """It looks like a rank behind: evidence is taken and the stack named, but the job is left alone and recovers."""
    job = run(tmp_path / "run", "checkpoint", "--hang-timeout", "2", "--busy-timeout", "4")
    assert job.code == 0
    assert job.verdict["status"] == "healthy"
    assert "rank 1 saves or loads a checkpoint (gloo_job.py" in job.errors
    assert "the job moves again" in job.errors
    told = json.loads((tmp_path / "run-slow-1" / "report.json").read_text())["verdict"]
    assert (told["code"], told["ranks"], told["confidence"]) == ("HANG01", [1], "medium")
    assert "saving a checkpoint in torch.save" in told["headline"]
    assert "--busy-timeout" in told["next"][0]


def test_each_attempt_has_its_evidence(tmp_path):
    job = run(tmp_path / "run", "twice", "--max-restarts", "1")
    assert job.code == 7
    earlier = json.loads((tmp_path / "run-attempt-1" / "evidence.json").read_text())
    first, second = (
        {e["variables"].get("TORCHELASTIC_RESTART_COUNT") for e in evidence["environments"]}
        for evidence in (earlier, job.note("evidence.json"))
    )
    assert "0" in first and "1" not in first
    assert "1" in second and "0" not in second
    job.assert_nothing_left()


def test_a_job_that_torchrun_starts_again_may_finish(tmp_path):
    job = run(tmp_path / "run", "flaky", "--max-restarts", "1")
    assert job.code == 0
    assert job.output.count("logs TUNING") == job.output.count("logs COLL") == 2
    assert {e["rank"]: e["exit_code"] for e in job.note()["exits"]} == {0: 0, 1: 0}
    job.assert_nothing_left()
