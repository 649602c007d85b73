"""Whole scripts: the recipes of a widely read article get their answer, honest trainers get silence."""

from pathlib import Path

import pytest

from nccldoctor.lint import check
from nccldoctor.lint.config import Config
from nccldoctor.lint.engine import Checked
from nccldoctor.model.finding import Confidence, Severity

SCRIPTS = Path(__file__).parent.parent / "data" / "scripts"
CLEAN = sorted((SCRIPTS / "clean").glob("*.py"))
SEED = {
    "setup_overwrites.py": {"CODE02", "CODE03", "CODE13", "CODE14"},
    "invented_accumulation.py": {"CODE09", "CODE11"},
    "hierarchical_groups.py": {"CODE07"},
    "async_wait.py": set(),
    "two_vendors.py": {"CODE01", "CODE07", "CODE16"},
    "one_shot_benchmark.py": {"CODE10"},
    "reduced_buffers.py": {"CODE22"},
    "wrong_home.py": {"CODE11"},
}


def _checked(path: Path) -> list[Checked]:
    return check([path], Config(confidence=Confidence.LOW)).checked


@pytest.mark.parametrize("name", sorted(SEED))
def test_what_the_article_teaches(name: str) -> None:
    assert {c.finding.code for c in _checked(SCRIPTS / "seed" / name)} == SEED[name]


def test_every_seed_script_is_expected() -> None:
    assert {p.name for p in (SCRIPTS / "seed").glob("*.py")} == set(SEED)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("setup_overwrites.py", "A timeout of 30 s"),
        ("setup_overwrites.py", "`datetime` is not imported"),
        ("setup_overwrites.py", "MASTER_ADDR, MASTER_PORT are overwritten"),
        ("two_vendors.py", "RCCL is behind the name 'nccl'"),
        ("reduced_buffers.py", "4 times the default of 4 MiB: raised, not reduced"),
        ("one_shot_benchmark.py", "no warm-up"),
        ("one_shot_benchmark.py", "is not size/time x 2(n-1)/n"),
        ("hierarchical_groups.py", "which host rank 4 is on depends on the launch"),
    ],
)
def test_says_what_is_wrong(name: str, said: str) -> None:
    assert any(said in c.finding.title for c in _checked(SCRIPTS / "seed" / name))


def test_there_are_enough_honest_scripts() -> None:
    assert len(CLEAN) >= 15


@pytest.mark.parametrize("path", CLEAN, ids=lambda p: p.name)
def test_silence_on_honest_scripts(path: Path) -> None:
    loud = [
        f"{c.finding.evidence[0].number} {c.finding.code} {c.finding.title}"
        for c in check([path]).checked
        if c.finding.severity is not Severity.NOTE
    ]
    assert loud == []
