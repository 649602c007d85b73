"""Every diagnosis is tried in two dialects or versions at least, and says the same through a collector."""

from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.diagnose.catalogue import diagnoses
from nccldoctor.diagnose.diagnosis import Diagnosis
from nccldoctor.model.finding import Severity
from tests.catalogue_cases.dialects import WRAPPED, count, is_log, wrap

_ONLY_RECORDERS = {"HANG03"}
"""Told by whole flight-recorder dumps: tests/hang/test_recorder_versions.py tries their versions."""


def test_each_code_is_tried_in_two_dialects() -> None:
    thin = {code: names for code, names in count().items() if len(set(names)) < 2}
    assert set(thin) <= _ONLY_RECORDERS, thin


@pytest.mark.parametrize("dialect", WRAPPED)
@pytest.mark.parametrize("diagnosis", diagnoses(), ids=lambda d: d.code)
def test_collectors_change_nothing(diagnosis: Diagnosis, dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    for name, sample in diagnosis.fires_on.items():
        if is_log(sample):
            path.write_text(wrap(dialect, str(sample)), newline="")
            assert diagnosis.code in {f.code for f in doctor.examine([str(path)]).findings}, name
    for name, sample in diagnosis.silent_on.items():
        if is_log(sample):
            path.write_text(wrap(dialect, str(sample)), newline="")
            findings = doctor.examine([str(path)]).findings
            loud = {f.code for f in findings if f.severity is not Severity.NOTE}
            assert diagnosis.code not in loud, name
