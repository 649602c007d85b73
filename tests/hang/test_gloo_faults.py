"""Real Gloo jobs of four processes with groups across each other, two faults, or a child's exception."""

import subprocess
import sys
from pathlib import Path

import pytest

from nccldoctor import doctor

pytest.importorskip("torch.distributed")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXPECTED = {
    "mesh_stops": ("HANG01", (2,), "wait_elsewhere"),
    "two_dead": ("HANG01", (1, 2), "left no flight recorder"),
    "monitored": ("HANG01", (2,), "monitored_barrier says"),
    "ring": ("HANG01", (2,), "wait_elsewhere"),
    "loader": ("CRASH01", (2,), "DataLoader worker"),
    "leaves_early": ("HANG01", (2,), "AllReduce(16 elements"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All scenarios at once, most of the time waiting."""
    folder = tmp_path_factory.mktemp("gloo")
    command = [sys.executable, "-m", "tests.hang.gloo_faults", str(folder), *EXPECTED]
    subprocess.run(command, check=True, timeout=150, cwd=ROOT)
    return folder


@pytest.mark.parametrize("scenario", EXPECTED)
def test_verdict(runs: Path, scenario: str) -> None:
    report = doctor.examine([str(runs / scenario)])
    said = [(f.code, f.ranks, f.title) for f in report.findings]
    code, ranks, words = EXPECTED[scenario]
    assert (report.verdict.code, report.verdict.ranks) == (code, ranks), said
    assert words in report.verdict.headline
