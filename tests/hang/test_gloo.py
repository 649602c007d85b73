"""Real Gloo jobs of three processes that go wrong, and what is said of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.model.finding import Severity
from nccldoctor.model.report import Report

pytest.importorskip("torch.distributed")
pytestmark = pytest.mark.slow

EXPECTED = {
    "missing": ("HANG01", (1,)),
    "wrong_op": ("COLL01", (1,)),
    "group_order": ("COLL03", (0, 1)),
    "dead": ("HANG01", (1,)),
    "stopped": ("HANG01", (1,)),
    "exception": ("CRASH01", (1,)),
    "some_create_group": ("INIT10", (1,)),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All scenarios, run once, a few at a time."""
    folder = tmp_path_factory.mktemp("gloo")
    script = Path(__file__).with_name("gloo_runs.py")
    names = ["ok", "wrong_size", *EXPECTED]
    subprocess.run([sys.executable, str(script), str(folder), *names], check=True, timeout=150)
    return folder


def _report(folder: Path) -> Report:
    return doctor.examine([str(folder)])


@pytest.mark.parametrize("scenario", list(EXPECTED))
def test_verdict(runs: Path, scenario: str) -> None:
    report = _report(runs / scenario)
    said = [(f.code, f.ranks, f.title) for f in report.findings]
    assert (report.verdict.code, report.verdict.ranks) == EXPECTED[scenario], said


def test_wrong_size(runs: Path) -> None:
    """Gloo ends the process that receives too much, so not every rank leaves a dump; the odd one is named anyhow."""
    report = _report(runs / "wrong_size")
    assert report.verdict.code == "COLL02", [(f.code, f.title) for f in report.findings]


def test_healthy_run(runs: Path) -> None:
    report = _report(runs / "ok")
    assert [f.code for f in report.findings if f.severity is not Severity.NOTE] == []


def test_where_ranks_stand(runs: Path) -> None:
    finding = _report(runs / "missing").findings[0]
    assert "in wait_elsewhere" in finding.title
    assert "in missing" in finding.explanation
