"""What nccldoctor itself saw, set and tried while it ran a job."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nccldoctor.model.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class HangObserved(Event):
    """nccldoctor's watchdog took the job for hung: `state` is skewed, symmetric or init.

    `behind` are the global ranks whose counters are behind or that have not arrived; `quiet_seconds` without progress.
    """

    state: str
    quiet_seconds: float
    behind: tuple[int, ...] = ()
    ended_job: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted(Event):
    """Somebody ended the job by a signal while nccldoctor's watchdog saw nothing wrong."""

    signal: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrumented(Event):
    """nccldoctor itself set these variables for the job; they are no choice of the user."""

    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnvironment(Event):
    """The distributed-training part of a process's environment, as nccldoctor saved it."""

    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverTried(Event):
    """The job itself, run again by `run --fallback job` with one NCCL setting: 0 is the exit code of success.

    `layer` is what is at fault when the job goes through with it, `cost` what the setting costs while it stays.
    """

    name: str
    exit_code: int
    variables: Mapping[str, str] = field(default_factory=dict)
    layer: str = ""
    cost: str = ""
