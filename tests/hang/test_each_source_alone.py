"""Each source of one recorded hang says alone what it can, and no more: recorded on two H200 as four hosts of two ranks."""

import shutil
from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.model.finding import Confidence
from nccldoctor.model.report import Status

SAMPLES = Path(__file__).parents[2] / "sample_logs"
OUTPUT, DUMPS, RAS = "rank*.out", "fr_rank_*", "ras_*"


@pytest.mark.parametrize(
    ("run", "pattern", "code", "ranks"),
    [
        ("2.28.9-hosts4-stopped", OUTPUT, "HANG01", (4,)),
        ("2.28.9-hosts4-stopped", RAS, "CRASH01", (4,)),
        ("2.28.9-hosts4-killed-two", OUTPUT, "HANG01", (1, 6)),
        ("2.28.9-hosts4-killed-two", DUMPS, "HANG01", (1, 6)),
        ("2.28.9-hosts4-uneven-exchange", OUTPUT, "COLL02", (2,)),
        ("2.28.9-hosts4-uneven-exchange", DUMPS, "COLL02", (1,)),
        ("2.28.9-hosts4-absent", OUTPUT, "INIT03", (5,)),
        ("2.28.9-hosts4-group-on-some", RAS, "HANG01", (5, 7)),
    ],
)
def test_verdict(run: str, pattern: str, code: str, ranks: tuple[int, ...], tmp_path: Path) -> None:
    for file in (SAMPLES / run).glob(pattern):
        shutil.copy(file, tmp_path)
    verdict = doctor.examine([str(tmp_path)]).verdict
    assert verdict.code == code, verdict.headline
    assert verdict.ranks == ranks, verdict.headline


@pytest.mark.parametrize("run", ["2.28.9-hosts4-stopped", "2.28.9-hosts4-pipeline-stuck"])
def test_dumps_of_some_ranks_prove_nothing_and_are_no_health(run: str, tmp_path: Path) -> None:
    for file in (SAMPLES / run).glob(DUMPS):
        shutil.copy(file, tmp_path)
    verdict = doctor.examine([str(tmp_path)]).verdict
    assert verdict.status is Status.UNKNOWN and verdict.confidence is Confidence.LOW


def test_watchdog_of_a_group_that_also_sends_compares_no_ranks() -> None:
    report = doctor.examine([str(SAMPLES / "2.28.9-hosts4-pipeline-stuck")])
    assert report.verdict.ranks == (4,)
    assert not any("default_pg" in f.title for f in report.findings if f.code == "HANG01")
