"""Findings: what is ill, who, how sure, and the lines that prove it."""

from dataclasses import dataclass
from enum import Enum

from nccldoctor.model.source import Line


class Severity(str, Enum):
    """error: the job failed, hangs or is wrong because of it; warning: costs speed or will fail; note: harmless."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Confidence(str, Enum):
    """high: the text says so itself, or two independent sources agree; low: a pattern that often means this."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Role(str, Enum):
    """Cause, or what follows from one."""

    CAUSE = "cause"
    CONSEQUENCE = "consequence"
    INDEPENDENT = "independent"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is ill. There is no finding without evidence.

    `ranks` are global ranks where the evidence gives them, else ranks of the communicator that the title names.
    `title` is one sentence with names and numbers first; `remedy` are commands or changes that can be pasted.
    """

    code: str
    name: str
    severity: Severity
    confidence: Confidence
    role: Role
    title: str
    explanation: str
    remedy: tuple[str, ...]
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    evidence: tuple[Line, ...]
    consequences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A diagnosis whose evidence is absent: never the same as health."""

    code: str
    because: str
    turn_on: str
