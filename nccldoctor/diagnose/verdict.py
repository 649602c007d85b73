"""The one sentence on top: status, who, where, why, and what to do next."""

from collections.abc import Sequence

from nccldoctor.diagnose import no_finding
from nccldoctor.model.events.torch import ProcessEnded
from nccldoctor.model.events.watched import HangObserved
from nccldoctor.model.finding import Confidence, Finding, Severity
from nccldoctor.model.job import Job
from nccldoctor.model.report import Status, Verdict

_WRONG_VALUES = "COLL06"


def decide(findings: Sequence[Finding], jobs: Sequence[Job]) -> Verdict:
    """The verdict over all jobs, from findings in their order of importance."""
    top = next((f for f in findings if f.severity is not Severity.NOTE), None)
    if (top is None or top.severity is Severity.WARNING) and (watched := _watched(jobs)):
        return watched
    if top is None:
        return no_finding.unproved(findings) or no_finding.verdict(jobs)
    if top.severity is Severity.WARNING:
        status = Status.DEGRADED
    else:
        hung = top.code.startswith(no_finding.HANGS) and top.code != _WRONG_VALUES
        status = Status.HUNG if hung else Status.FAILED
    return Verdict(
        status=status,
        headline=top.title,
        code=top.code,
        confidence=top.confidence,
        ranks=top.ranks,
        hosts=top.hosts,
        next=top.remedy[:3],
    )


def _watched(jobs: Sequence[Job]) -> Verdict | None:
    """What nccldoctor saw with its own eyes stands, also where no diagnosis can tell why: a hang, a failed rank."""
    for hang in (event for job in jobs for event in job.events(HangObserved)):
        return Verdict(Status.HUNG, hang.line.text, confidence=Confidence.LOW, ranks=hang.behind)
    failed = [e for job in jobs for e in job.events(ProcessEnded) if e.exit_code]
    for end in sorted(failed, key=lambda e: not e.first):
        ranks = () if end.ended_rank is None else (end.ended_rank,)
        return Verdict(Status.FAILED, end.line.text, confidence=Confidence.LOW, ranks=ranks)
    return None
