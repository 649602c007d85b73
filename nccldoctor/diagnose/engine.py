"""Runs every diagnosis over a job, and puts cause before consequence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from nccldoctor.diagnose.causes import explained_by
from nccldoctor.diagnose.diagnosis import CannotCheck, Diagnosis, Found
from nccldoctor.model.evidence import SAID, TURN_ON
from nccldoctor.model.finding import Confidence, Finding, NotChecked, Role, Severity
from nccldoctor.model.job import Job

_SEVERITIES = list(Severity)
_CONFIDENCES = list(Confidence)


def examine(
    job: Job, diagnoses: Sequence[Diagnosis]
) -> tuple[tuple[Finding, ...], tuple[NotChecked, ...]]:
    """All findings, most important first, and what could not be checked.

    A last resort is tried only where nothing else found an error. A diagnosis that raises is "not checked: internal error" and costs nothing else.
    """
    findings: list[Finding] = []
    not_checked: list[NotChecked] = []
    for diagnosis in sorted(diagnoses, key=lambda d: d.last_resort):
        if diagnosis.last_resort and any(_settles(f, diagnosis) for f in findings):
            continue
        if diagnosis.needs and not job.has(*diagnosis.needs):
            not_checked.append(_absent(diagnosis))
            continue
        try:
            findings += [_finding(diagnosis, found) for found in diagnosis.check(job)]
        except CannotCheck as absent:
            not_checked.append(NotChecked(diagnosis.code, absent.because, absent.turn_on))
        except Exception as error:  # a faulty diagnosis must not cost the others
            because = f"internal error: {type(error).__name__}: {error}"
            not_checked.append(NotChecked(diagnosis.code, because, "please report this"))
    return order(findings, diagnoses, times_of([job])), tuple(not_checked)


def order(
    findings: Iterable[Finding],
    diagnoses: Sequence[Diagnosis],
    times: Mapping[tuple[str, int], datetime],
) -> tuple[Finding, ...]:
    """Causes first, each with the codes of its consequences; then by severity and confidence.

    `times` tells when the line (file, number) was written, where it tells so itself.
    """
    found = list(findings)
    causes = explained_by(found, {d.code: frozenset(d.explains) for d in diagnoses}, times)
    ordered = []
    for index, finding in enumerate(found):
        follow = {found[i].code for i, by in causes.items() if index in by}
        consequences = tuple(sorted(follow - {finding.code}))
        if index in causes or finding.role is Role.CONSEQUENCE:
            role = Role.CONSEQUENCE
        else:
            role = Role.CAUSE if consequences else Role.INDEPENDENT
        ordered.append(replace(finding, role=role, consequences=consequences))
    return by_importance(ordered)


def by_importance(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Errors first, and causes before consequences; what explains what is left as it is."""
    return tuple(sorted(findings, key=_importance))


def times_of(jobs: Iterable[Job]) -> dict[tuple[str, int], datetime]:
    """When each line of evidence was written, where it says so."""
    return {
        (event.line.file, event.line.number): event.speaker.time
        for job in jobs
        for event in job.all_events()
        if event.speaker.time is not None
    }


def _importance(finding: Finding) -> tuple[int, bool, int, int, str, tuple[int, ...], str]:
    return (
        _SEVERITIES.index(finding.severity),
        finding.role is Role.CONSEQUENCE,
        _CONFIDENCES.index(finding.confidence),
        -len(finding.consequences),
        finding.code,
        finding.ranks,
        finding.title,
    )


def _settles(finding: Finding, resort: Diagnosis) -> bool:
    """Is it an error that needs no last resort: not merely one that follows from what that one tells?"""
    follows = finding.role is Role.CONSEQUENCE and finding.code in resort.explains
    return finding.severity is Severity.ERROR and not follows


def _finding(diagnosis: Diagnosis, found: Found) -> Finding:
    if not found.evidence:
        raise ValueError("a finding without evidence")
    return Finding(
        code=diagnosis.code,
        name=diagnosis.name,
        severity=found.severity or diagnosis.severity,
        confidence=found.confidence,
        role=Role.CONSEQUENCE if found.consequence else Role.INDEPENDENT,
        title=found.title,
        explanation=found.explanation or diagnosis.documentation.strip(),
        remedy=found.remedy or _steps(diagnosis, found),
        ranks=tuple(sorted(set(found.ranks))),
        hosts=tuple(sorted(set(found.hosts))),
        evidence=found.evidence,
    )


def _steps(diagnosis: Diagnosis, found: Found) -> tuple[str, ...]:
    """Changes first where the finding is sure and tells which; else one look before, so that nobody mends what is not ill."""
    if found.confidence is Confidence.HIGH and not diagnosis.look_first:
        return (*diagnosis.remedy, *diagnosis.confirm)
    return (*diagnosis.confirm[:1], *diagnosis.remedy, *diagnosis.confirm[1:])


def _absent(diagnosis: Diagnosis) -> NotChecked:
    names = " or ".join(SAID[kind] for kind in diagnosis.needs)
    return NotChecked(diagnosis.code, f"no {names}", TURN_ON[diagnosis.needs[0]])
