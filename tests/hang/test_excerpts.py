"""A log that merely ends is no hang: healthy runs, cut in several ways, stay without an error."""

import json
import random
from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.model.finding import Severity

SAMPLES = Path(__file__).parents[2] / "sample_logs"
HANGS = ("HANG", "COLL", "INIT01", "INIT10", "CRASH")


def _lines(data: bytes, number: int) -> bytes:
    return b"\n".join(data.splitlines()[:number]) + b"\n"


@pytest.mark.parametrize("folder", ["2.28.9-healthy-default", "2.28.9-nodes4-healthy"])
@pytest.mark.parametrize(
    "how", ["same number of lines", "same size", "inside a line", "half of the ranks"]
)
def test_cut_logs_of_a_healthy_run(folder: str, how: str, tmp_path: Path) -> None:
    logs = sorted((SAMPLES / folder).glob("nccl_debug*"))
    shortest = min(len(log.read_bytes().splitlines()) for log in logs)
    smallest = min(log.stat().st_size for log in logs)
    for number, log in enumerate(logs):
        data = log.read_bytes()
        if how == "same number of lines":
            data = _lines(data, shortest * 9 // 10)
        elif how == "same size":
            data = data[: smallest * 9 // 10]
        elif how == "inside a line":
            data = data[: len(data) * (80 + 3 * number) // 100].rstrip(b"\n")
        elif number % 2:
            continue
        (tmp_path / log.name).write_bytes(data)
    report = doctor.examine([str(tmp_path)])
    loud = [f for f in report.findings if f.severity is Severity.ERROR and f.code.startswith(HANGS)]
    assert loud == [], [(f.code, f.title) for f in loud]


def test_a_ras_answer_from_the_middle_of_a_healthy_run() -> None:
    report = doctor.examine([str(SAMPLES / "2.28.9-slow-rank")])
    assert not [f.code for f in report.findings if f.code.startswith("HANG01")]


TRUTH = json.loads((SAMPLES / "TRUTH.json").read_text())
HEALTHY = sorted(
    name
    for name, truth in TRUTH.items()
    if truth.get("healthy") and any((SAMPLES / name).glob("nccl*.log"))
)
CUTS = ("tail", "lines", "head", "both", "hole", "live")


def _cut(data: bytes, how: str, choose: random.Random, moment: float) -> bytes:
    """What is left of a log: its first bytes or lines, its last ones, the middle, all but a piece, or up to a moment."""
    first, last = sorted((choose.randrange(len(data)), choose.randrange(len(data))))
    lines = data.splitlines(keepends=True)
    return {
        "tail": data[:last],
        "lines": b"".join(lines[: choose.randrange(len(lines)) + 1]),
        "head": data[first:],
        "both": data[first:last],
        "hole": data[:first] + data[min(last, first + 20_000) :],
        "live": b"".join(lines[: int(len(lines) * (moment + choose.uniform(-0.02, 0.02)))]),
    }[how]


@pytest.mark.parametrize("folder", HEALTHY)
def test_logs_cut_at_random(folder: str, tmp_path: Path) -> None:
    """Each rank's log is cut elsewhere, or only one of them. RAS is left out: it tells the state at one moment truly."""
    files = sorted(f for f in (SAMPLES / folder).iterdir() if f.suffix in (".log", ".out"))
    for how in CUTS:
        for alone in (False, True):
            choose = random.Random(f"{folder} {how} {alone}")
            moment, odd = choose.uniform(0.2, 0.95), choose.choice(files)
            job = tmp_path / f"{how} {alone}"
            job.mkdir()
            for file in files:
                data = file.read_bytes()
                if data and (file == odd or not alone):
                    data = _cut(data, how, choose, moment)
                (job / file.name).write_bytes(data)
            report = doctor.examine([str(job)])
            loud = [f for f in report.findings if f.severity is not Severity.NOTE]
            assert not [(f.code, f.title) for f in loud if f.code.startswith(HANGS)], how
