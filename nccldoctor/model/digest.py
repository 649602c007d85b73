"""What one source says, ready to be joined with others: small, picklable, made without knowing other files."""

from dataclasses import dataclass, field

from nccldoctor.model.calls import CallTable
from nccldoctor.model.event import Event
from nccldoctor.model.source import Line, Source


@dataclass(frozen=True, slots=True)
class Unknown:
    """An NCCL message that no pattern knows: its shape (numbers blanked), how often, and the first place."""

    shape: str
    count: int
    first: Line


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much was understood. `records` are NCCL records; `understood` includes calls and known noise."""

    lines: int = 0
    records: int = 0
    understood: int = 0
    unknown: tuple[Unknown, ...] = ()

    @property
    def ratio(self) -> float:
        return self.understood / self.records if self.records else 1.0


@dataclass(frozen=True, slots=True)
class Digest:
    """One source, digested. `events` are in the order of the source."""

    source: Source
    events: tuple[Event, ...] = ()
    calls: tuple[CallTable, ...] = ()
    coverage: Coverage = field(default_factory=Coverage)
