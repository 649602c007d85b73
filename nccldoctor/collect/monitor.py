"""Ties the watchdog to a running session: looks once a second, and on a hang takes evidence and decides."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nccldoctor.collect import observe
from nccldoctor.collect.rally import Alarm
from nccldoctor.collect.session import Session
from nccldoctor.collect.states import Announcer, note, sentence
from nccldoctor.collect.watchdog import Look, State, Verdict, Watchdog

_SILENT_SECONDS = 2.0
_DEAF_LOOKS = 10


@dataclass(slots=True)
class Monitor:
    """`on_hang` is kill, report or wait; `say` prints one line; `report` is called after evidence was taken."""

    watchdog: Watchdog
    on_hang: str
    say: Callable[[str], None]
    report: Callable[[Session], None]
    every: float = 1.0
    heard: Callable[[], Alarm | None] = lambda: None
    recovered: Callable[[], None] = lambda: None
    govern: Callable[[], None] = lambda: None
    gpus: observe.Gpus = lambda ranks: {}
    show: Callable[[str], None] = lambda text: None
    outside: Callable[[], list[Look]] = list
    _announcer: Announcer | None = None
    _began: float | None = None
    _from_outside: bool = False
    _next: float = 0.0
    _last: Verdict = field(default_factory=lambda: Verdict(State.STARTING))
    _hung_since: float | None = None

    def tick(self, session: Session) -> str | None:
        """Looks if it is time to; returns why the job is to be ended, or None."""
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + self.every
        self.govern()
        closely = self._last.quiet_seconds > 2 * self.every
        looks = observe.look_at_ranks(session.intake, closely=closely, gpus=self.gpus)
        if not looks and not session.intake.ranks:
            looks = self._look_from_outside(now)
        verdict = self.watchdog.observe(now, looks)
        self._tell(session, verdict, looks)
        before, self._last = self._last, verdict
        alarm = self.heard()
        if alarm is not None and self._hung_since is None and not verdict.state.hung:
            return self._told(session, alarm, now)
        if not verdict.state.hung:
            moves = verdict.state is State.RUNNING and verdict.quiet_seconds < 2 * self.every
            if before.state.hung or (self._hung_since is not None and moves):
                self.say("the job moves again: it was slow, not hung")
                self.recovered()
                session.forget_evidence()
                self._hung_since = None
            return None
        if self._hung_since is not None:
            return None
        self._hung_since = now
        return self._hung(session, verdict, now)

    def _look_from_outside(self, now: float) -> list[Look]:
        """RAS alone tells where no rank has reported after ten looks: Python without PYTHONPATH, or no Python at all."""
        self._began = self._began or now
        if now - self._began < _DEAF_LOOKS * self.every:
            return []
        looks = self.outside()
        self._from_outside = self._from_outside or bool(looks)
        return looks

    def _tell(self, session: Session, verdict: Verdict, looks: Sequence[Look]) -> None:
        """A line where the state is worth one, and the line at the bottom of the terminal while the job is silent."""
        if self._announcer is None:
            self._announcer = Announcer(self.watchdog.limits.busy)
        if line := self._announcer.line(verdict, len(looks)):
            self.say(line)
        if time.monotonic() - session.intake.output_at > _SILENT_SECONDS:
            if verdict.state is State.STARTING:
                self.show(f"nccldoctor: starting · {len(looks)} ranks")
                return
            calls = max((sum(look.counters.values()) for look in looks), default=0)
            self.show(
                f"nccldoctor: {verdict.state.value} · {len(looks)} ranks · {calls:,} collectives · "
                f"{verdict.quiet_seconds:.0f} s since the last"
            )

    def _hung(self, session: Session, verdict: Verdict, now: float) -> str | None:
        text = sentence(verdict)
        kill = self.on_hang == "kill" and not verdict.works and not self._from_outside
        session.outcome.hang = note(verdict, text, ended_job=kill)
        session.take_evidence(text)
        if verdict.works:
            self.say("the rank visibly works, so the job is not ended; it may just take long")
        if self._from_outside:
            self.say("RAS alone tells so, and cannot tell work from waiting: the job is not ended")
        if self.on_hang == "report" or verdict.works or self._from_outside:
            self.report(session)
        return text if kill else None

    def _told(self, session: Session, alarm: Alarm, now: float) -> str | None:
        """Another host has called: its word counts here too, and this host's own evidence is taken for it."""
        text = f"{alarm.why}, as {alarm.host} says"
        kill = alarm.ends_job and self.on_hang == "kill"
        if alarm.hang is not None:
            self._hung_since = now
            session.outcome.hang = {
                **alarm.hang,
                "sentence": text,
                "ended_job": kill,
                "told_by": alarm.host,
            }
        session.take_evidence(text)
        return text if kill else None
