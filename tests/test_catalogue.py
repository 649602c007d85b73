"""Every diagnosis fires on its own sick samples, is silent on its healthy ones, and on every healthy run."""

import re
from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.diagnose.catalogue import diagnoses
from nccldoctor.diagnose.diagnosis import Diagnosis, Sample
from nccldoctor.model.finding import Severity
from nccldoctor.model.report import Report

SAMPLES = Path(__file__).parent.parent / "sample_logs"

_FALLBACK = re.compile(
    r"NCCL_\w+_DISABLE=1|NCCL_(?:NVLS|CUMEM|MNNVL)_ENABLE=0|NCCL_NET=Socket|NCCL_(?:ALGO|PROTO)=\w|"
    r"NCCL_MAX_NCHANNELS=\d|NCCL_NET_PLUGIN=none"
)
_FOR_NOW = re.compile(r"one run|until|before:", re.IGNORECASE)


def _report(sample: str | Sample, scratch: Path) -> Report:
    if isinstance(sample, Sample):
        return doctor.examine([str(SAMPLES / sample.folder)])
    path = scratch / "job.log"
    path.write_text(sample)
    return doctor.examine([str(path)])


def _cases(which: str) -> list[object]:
    return [
        pytest.param(d, sample, id=f"{d.code}-{name}")
        for d in diagnoses()
        for name, sample in getattr(d, which).items()
    ]


@pytest.mark.parametrize(("diagnosis", "sample"), _cases("fires_on"))
def test_fires(diagnosis: Diagnosis, sample: str | Sample, tmp_path: Path) -> None:
    report = _report(sample, tmp_path)
    found = [f for f in report.findings if f.code == diagnosis.code]
    assert found, _said(report)
    for line in (line for f in found for line in f.remedy if _FALLBACK.search(line)):
        assert _FOR_NOW.search(line), f"a fallback that stays on: {line}"


@pytest.mark.parametrize(("diagnosis", "sample"), _cases("silent_on"))
def test_is_silent(diagnosis: Diagnosis, sample: str | Sample, tmp_path: Path) -> None:
    report = _report(sample, tmp_path)
    loud = {f.code for f in report.findings if f.severity is not Severity.NOTE}
    assert diagnosis.code not in loud, _said(report)


@pytest.mark.parametrize("diagnosis", diagnoses(), ids=lambda d: d.code)
def test_is_complete(diagnosis: Diagnosis) -> None:
    assert diagnosis.documentation.strip(), "the docstring is the explanation that people read"
    assert diagnosis.fires_on and diagnosis.silent_on, "both kinds of samples are needed"
    assert diagnosis.remedy, "say what to do"


def test_codes_are_unique() -> None:
    codes = [d.code for d in diagnoses()]
    names = [d.name for d in diagnoses()]
    assert len(codes) == len(set(codes)) and len(names) == len(set(names))


def test_nothing_explains_itself() -> None:
    for d in diagnoses():
        assert d.code not in d.explains


def _said(report: Report) -> str:
    internal = [n for n in report.not_checked if "internal error" in n.because]
    return f"{[(f.code, f.severity.value, f.title) for f in report.findings]} {internal}"


@pytest.mark.parametrize("diagnosis", diagnoses(), ids=lambda d: d.code)
def test_advice_can_be_pasted_and_says_what_it_costs(diagnosis: Diagnosis) -> None:
    assert diagnosis.confirm, "say how to confirm it"
    for line in (*diagnosis.confirm, *diagnosis.remedy):
        words, mark, why = line.partition("  # ")
        assert words and mark and why, f"no command with a reason behind it: {line}"
        assert not words[0].isupper() or "=" in words.split()[0] or "(" in words, f"prose: {line}"
        if _FALLBACK.search(line):
            assert _FOR_NOW.search(why), f"a fallback that stays on: {line}"
    for line in diagnosis.remedy:
        assert "cost" in line, f"no price: {line}"
