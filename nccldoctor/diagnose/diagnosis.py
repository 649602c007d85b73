"""What a diagnosis file declares, and what its check yields.

A diagnosis is a module under `catalogue/<group>/` with these names at its top level:

    docstring   what it is, why NCCL does that, and when it is not a fault
    code        "INIT02", as in the catalogue
    name        "duplicate-gpu"
    severity    Severity.ERROR
    needs       any one of these kinds of evidence suffices; without any it is "not checked"
    explains    codes that are its consequences: they are folded under it, or ()
    confirm     commands that show whether it is so, and change nothing
    remedy      changes to paste, most useful first; each says after its `#` what it costs
    look_first  True where the right change depends on what the look shows; may be left out
    check       check(job) yields Found
    fires_on    {"2.3-2.29": "a short log …"} or {"…": Sample("folder-under-sample_logs")}
    silent_on   the same for what must not raise it
    last_resort True (optional): tried only where no other diagnosis finds an error
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nccldoctor.diagnose.words import lines
from nccldoctor.model.event import Event
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.source import Line


class CannotCheck(Exception):
    """Raised by a check that finds nothing because part of its evidence is absent: it becomes "not checked"."""

    def __init__(self, because: str, turn_on: str) -> None:
        super().__init__(because)
        self.because, self.turn_on = because, turn_on


@dataclass(frozen=True, slots=True)
class Found:
    """What a check yields; the engine adds code, name, severity and remedy where they are not given here.

    `ranks` are global ranks where the evidence gives them; otherwise the title names the communicator.
    """

    title: str
    evidence: tuple[Line, ...]
    confidence: Confidence = Confidence.HIGH
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    explanation: str = ""
    severity: Severity | None = None
    remedy: tuple[str, ...] = ()
    consequence: bool = False


def told_by(
    job: Job,
    events: Iterable[Event],
    title: str,
    *,
    evidence: tuple[Line, ...] | None = None,
    confidence: Confidence = Confidence.HIGH,
    explanation: str = "",
    severity: Severity | None = None,
    remedy: tuple[str, ...] = (),
    consequence: bool = False,
) -> Found:
    """What the writers of these events tell: their ranks and hosts, and these lines unless other `evidence` is given."""
    events = list(events)
    return Found(
        title=title,
        evidence=lines(events) if evidence is None else evidence,
        confidence=confidence,
        ranks=job.ranks_of(events),
        hosts=job.hosts_of(events),
        explanation=explanation,
        severity=severity,
        remedy=remedy,
        consequence=consequence,
    )


@dataclass(frozen=True, slots=True)
class Sample:
    """A folder under `sample_logs/`, where a short text would not do."""

    folder: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One file of the catalogue, read."""

    code: str
    name: str
    severity: Severity
    needs: tuple[Evidence, ...]
    explains: tuple[str, ...]
    confirm: tuple[str, ...]
    remedy: tuple[str, ...]
    documentation: str
    check: Callable[[Job], Iterable[Found]]
    fires_on: Mapping[str, str | Sample]
    silent_on: Mapping[str, str | Sample]
    module: str
    last_resort: bool = False
    look_first: bool = False

    @property
    def group(self) -> str:
        return self.code.rstrip("0123456789")

    @property
    def summary(self) -> str:
        return self.documentation.strip().partition("\n")[0]
