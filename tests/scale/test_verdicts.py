"""Made jobs with tensor, pipeline and data parallel groups: each kind of fault is named, and noise is none."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from nccldoctor import doctor

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

pytestmark = pytest.mark.skipif(
    not (BENCHMARKS / "jobs.py").exists(), reason="an sdist has no benchmarks"
)


@pytest.fixture
def scale(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import scale

    return scale


@pytest.mark.parametrize(
    "kind", ["skip", "stop", "op", "size", "dtype", "death", "order", "missing", "env", "ib"]
)
def test_the_rank_at_fault_is_named(scale, kind, tmp_path):
    """Four pipeline stages: whoever waits in a send or receive is no culprit, nor is an end that does not meet one."""
    for seed in range(4):
        choose = random.Random(f"test {kind} {seed}")
        shape = replace(
            scale.shape(choose, kind), hosts=8, per_host=4, stages=4, window=(1, 2, 8, 20)[seed]
        )
        job = scale.hurt(scale.make(shape, seed, 40), kind)
        folder = tmp_path / str(seed)
        scale.write(job, folder, scale.Noise(prefix=seed % 2 == 1))
        report = doctor.examine([str(folder)])
        assert scale.is_right(report, job.truth), (report.verdict, job.truth)


@pytest.mark.parametrize(
    "suffered",
    [
        {"lost": 0.004, "destroyed": True},
        {"skew": True, "shuffled": True},
        {"prefix": True, "attempts": 2, "destroyed": True},
    ],
    ids=["lost lines", "clocks and names", "restarted"],
)
def test_noise_is_no_fault(scale, suffered, tmp_path):
    for seed in range(3):
        choose = random.Random(f"test healthy {seed}")
        shape = replace(scale.shape(choose, None), hosts=4, per_host=4, stages=2)
        job = scale.make(shape, seed, 60)
        folder = tmp_path / str(seed)
        scale.write(job, folder, scale.Noise(**suffered))
        assert scale.alarms(doctor.examine([str(folder)])) == []
