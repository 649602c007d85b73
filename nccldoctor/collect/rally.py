"""The nccldoctors of one job tell each other that evidence is being taken, so that none kills before all have theirs."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

PATIENCE_SECONDS = 30.0
"""So long, from its own alarm on, does one host wait for the evidence of the others."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One host's call. `origin` is unique in the job; `hang` is what its watchdog saw, None when a rank has failed.

    `ends_job` tells that the caller is going to end its ranks once all have their evidence.
    """

    origin: str
    host: str
    why: str
    hang: Mapping[str, Any] | None = None
    ends_job: bool = False

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> "Alarm":
        """Raises KeyError, TypeError or ValueError on what no nccldoctor has written."""
        hang = told.get("hang")
        return cls(
            origin=str(told["origin"])[:200],
            host=str(told["host"])[:200],
            why=str(told["why"])[:500],
            hang=dict(hang) if hang else None,
            ends_job=bool(told.get("ends_job")),
        )


class Channel(Protocol):
    """One way to reach the others; every method returns at once, and none raises."""

    def call(self, alarm: Alarm) -> None:
        """Makes the alarm known."""

    def alarms(self) -> list[Alarm]:
        """The open alarms that are known here, one's own among them."""

    def secure(self, origin: str) -> None:
        """Says that one's own evidence for this alarm is on disk."""

    def secured(self, origin: str) -> bool:
        """Have all that can be reached said so? True as well where nobody can be reached."""

    def others(self) -> int:
        """How many nccldoctors there are besides this one."""

    def leave(self) -> None:
        """Takes back what is only of use while the job runs."""


@dataclass(slots=True)
class Rally:
    """This host's part; without channels it stands alone, and nothing is waited for.

    An alarm that comes by one channel is passed on to the others: ranks of one host may share a folder while only one of
    them is at the job's store.
    """

    host: str
    name: str
    channels: list[Channel] = field(default_factory=list)
    _seen: dict[str, Alarm] = field(default_factory=dict)
    _passed: set[tuple[int, str]] = field(default_factory=set)
    _answered: set[str] = field(default_factory=set)
    _mine: int = 0
    _have_evidence: bool = False

    def call(self, why: str, hang: Mapping[str, Any] | None) -> None:
        """Tells the others, unless it was one of them who has called."""
        self._listen()
        if not self.channels or set(self._seen) - self._answered:
            return
        self._mine += 1
        origin = f"{self.host}/{self.name}/{self._mine}"
        alarm = Alarm(origin, self.host, why, hang, bool(hang and hang.get("ended_job")))
        self._seen[origin] = alarm
        self._pass_on()

    def heard(self) -> Alarm | None:
        """The next call that has not been answered; where evidence was taken already, it is answered with that."""
        self._listen()
        if self._have_evidence:
            self.secure()
        return next((a for o, a in self._seen.items() if o not in self._answered), None)

    def secure(self) -> None:
        """This host has its evidence: says so to all who have called."""
        self._have_evidence = True
        for origin in set(self._seen) - self._answered:
            self._answered.add(origin)
            for channel in self.channels:
                channel.secure(origin)

    def wait(self, deadline: float, interrupted: Callable[[], bool]) -> bool:
        """Returns once all have their evidence, or when monotonic time has come to `deadline`: then False."""
        while time.monotonic() < deadline and not interrupted():
            self._listen()
            self.secure()
            if all(channel.secured(origin) for channel in self.channels for origin in self._seen):
                return True
            time.sleep(0.1)
        return False

    def others(self) -> int:
        """How many others have been met."""
        return max((channel.others() for channel in self.channels), default=0)

    def reopen(self) -> None:
        """The trouble is over: the next call is answered with new evidence."""
        self._have_evidence = False

    def leave(self) -> None:
        for channel in self.channels:
            channel.leave()

    def _listen(self) -> None:
        for number, channel in enumerate(self.channels):
            for alarm in channel.alarms():
                self._passed.add((number, alarm.origin))
                self._seen.setdefault(alarm.origin, alarm)
        self._pass_on()

    def _pass_on(self) -> None:
        for origin, alarm in self._seen.items():
            for number, channel in enumerate(self.channels):
                if (number, origin) not in self._passed:
                    self._passed.add((number, origin))
                    if origin not in self._answered:
                        channel.call(alarm)
