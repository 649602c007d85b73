"""Cause before consequence, also where findings explain one another."""

from datetime import datetime, timezone
from pathlib import Path

from nccldoctor import doctor
from nccldoctor.diagnose.causes import explained_by
from nccldoctor.model.finding import Confidence, Finding, Role, Severity
from nccldoctor.model.source import Line

SAMPLES = Path(__file__).resolve().parents[1] / "sample_logs"
EXPLAINS = {
    "CRASH01": frozenset({"NET01", "NET10"}),
    "NET01": frozenset({"NET10", "CRASH01", "HANG04"}),
}


def _finding(code: str, line: int, severity: Severity = Severity.ERROR) -> Finding:
    evidence = (Line("log", line, code),)
    return Finding(
        code, "", severity, Confidence.HIGH, Role.INDEPENDENT, code, "", (), (), (), evidence
    )


def _at(second: int) -> datetime:
    return datetime(2026, 11, 30, 4, 0, second, tzinfo=timezone.utc)


def test_the_earlier_of_two_that_explain_each_other_is_the_cause() -> None:
    findings = [_finding("CRASH01", 9), _finding("NET01", 3)]
    times = {("log", 9): _at(20), ("log", 3): _at(10)}
    assert explained_by(findings, EXPLAINS, times) == {0: frozenset({1})}
    times = {("log", 9): _at(10), ("log", 3): _at(20)}
    assert explained_by(findings, EXPLAINS, times) == {1: frozenset({0})}


def test_without_times_the_one_that_explains_most_is_the_cause() -> None:
    assert explained_by([_finding("CRASH01", 9), _finding("NET01", 3)], EXPLAINS, {}) == {
        0: frozenset({1})
    }


def test_a_note_explains_nothing_and_a_warning_no_error() -> None:
    for severity in (Severity.NOTE, Severity.WARNING):
        findings = [_finding("CRASH01", 1, severity), _finding("NET10", 2)]
        assert explained_by(findings, EXPLAINS, {}) == {}


def test_a_job_explains_nothing_of_another() -> None:
    runs = (SAMPLES / "2.26.2-dupgpu", SAMPLES / "2.28.9-nodes4-skip")
    report = doctor.examine([str(run) for run in runs])
    roles = {f.code: (f.role, f.consequences) for f in report.findings}
    assert len(report.jobs) == 2
    assert roles["INIT02"] == (Role.INDEPENDENT, ())
    assert roles["HANG01"] == (Role.CAUSE, ("HANG04", "NET10"))
