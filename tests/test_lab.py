"""Every recorded run gets the verdict that its truth file asks for; healthy runs get none."""

import json
from pathlib import Path
from typing import Any

import pytest

from nccldoctor import doctor
from nccldoctor.model.finding import Finding, Severity

SAMPLES = Path(__file__).parent.parent / "sample_logs"
TRUTH: dict[str, dict[str, Any]] = json.loads((SAMPLES / "TRUTH.json").read_text())


def _loud(name: str) -> tuple[str | None, list[Finding]]:
    report = doctor.examine([str(SAMPLES / name)])
    return report.verdict.code, [f for f in report.findings if f.severity is not Severity.NOTE]


@pytest.mark.parametrize("name", [n for n, t in TRUTH.items() if t.get("healthy")])
def test_healthy_run_raises_nothing(name: str) -> None:
    _, loud = _loud(name)
    assert {f.code for f in loud} <= set(TRUTH[name].get("allow", [])), [f.title for f in loud]


@pytest.mark.parametrize("name", [n for n, t in TRUTH.items() if t.get("must")])
def test_fault_is_named(name: str) -> None:
    truth = TRUTH[name]
    code, loud = _loud(name)
    assert code in truth["must"], [(f.code, f.title) for f in loud]
    top = next(f for f in loud if f.code == code)
    if "ranks" in truth:
        assert top.ranks and set(top.ranks) <= set(truth["ranks"]), top.title
    if "hosts" in truth:
        assert set(truth["hosts"]) & set(top.hosts), top.title
