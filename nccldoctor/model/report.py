"""The report: everything that the outputs show, decided before any of them is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from nccldoctor.model.digest import Coverage
from nccldoctor.model.finding import Confidence, Finding, NotChecked
from nccldoctor.model.job import Job
from nccldoctor.model.source import Source


class Status(str, Enum):
    """The state of the job in one word."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    FAILED = "failed"
    HUNG = "hung"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sentence: who, where, why; and what to do next."""

    status: Status
    headline: str
    code: str | None = None
    confidence: Confidence | None = None
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    next: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict and its proof. `findings` are in the order of importance.

    `facts` is what the outputs tell of the jobs (the `jobs` of the JSON): plain dicts, lists, strings and numbers.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    jobs: tuple[Job, ...]
    facts: tuple[Mapping[str, Any], ...]
    coverage: Coverage
    inputs: tuple[Source, ...]
    notes: tuple[str, ...] = field(default=())
