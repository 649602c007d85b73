"""What the watchdog's verdicts are in words: hangs in one sentence, and what else is worth a line while the job runs."""

from dataclasses import dataclass
from typing import Any

from nccldoctor.collect.watchdog import State, Verdict

_DOES = {
    "compiling": ("compiles", "compile"),
    "evaluating": ("evaluates", "evaluate"),
    "checkpointing": ("saves or loads a checkpoint", "save or load a checkpoint"),
}
_FIRST_WORD_SECONDS = 10.0
_AGAIN = 4.0
"""The next line on the same state comes when it has lasted so many times as long."""


def note(verdict: Verdict, text: str, *, ended_job: bool) -> dict[str, Any]:
    """What the bundle keeps of a hang."""
    state = {State.SKEWED: "skewed", State.SYMMETRIC: "symmetric", State.INIT: "init"}
    return {
        "state": state[verdict.state],
        "quiet_seconds": round(verdict.quiet_seconds, 1),
        "behind": list(verdict.behind),
        "waiting": list(verdict.waiting),
        "spinning": list(verdict.spinning),
        "phase": verdict.phase,
        "sentence": text,
        "ended_job": ended_job,
    }


def sentence(verdict: Verdict) -> str:
    """The hang in one sentence, names first."""
    quiet = f"for {verdict.quiet_seconds:.0f} s"
    who = ranks(verdict.behind)
    if verdict.state is State.INIT:
        if verdict.behind:
            return f"{who} did not reach the set-up of process groups; no progress {quiet}"
        return f"process groups are not set up; no progress {quiet}"
    spins = ""
    if verdict.spinning:
        one = len(verdict.spinning) == 1
        spins = f"; the GPU{'s' * (not one)} of {ranks(verdict.spinning)} spin{'s' * one} in a kernel that waits"
    if verdict.state is State.SKEWED:
        verb = "is" if len(verdict.behind) == 1 else "are"
        doing = f"{_doing(verdict)} while others wait" if verdict.phase else f"{who} {verb} behind"
        return f"{doing}; no collective was started {quiet}{spins}"
    doing = f" ({_doing(verdict)})" if verdict.phase else ""
    return f"no rank has started a collective {quiet}, and none is behind{doing}{spins}"


def in_words(verdict: Verdict, busy_seconds: float) -> str:
    """What a job that is not hung does, for a line of its own."""
    quiet = f"no collective for {verdict.quiet_seconds:.0f} s"
    if verdict.phase is not None and verdict.state.value == verdict.phase:
        return f"{_doing(verdict)}; {quiet}, which is no hang before {busy_seconds:.0f} s (--busy-timeout)"
    if verdict.state is State.STARTING:
        missing = f"; {ranks(verdict.behind)} not there yet" if verdict.behind else ""
        return f"starting: {ranks(verdict.waiting)} set up process groups for {verdict.quiet_seconds:.0f} s{missing}"
    behind = f"; {ranks(verdict.behind)} behind" if verdict.behind else ""
    works = " and visibly at work" if verdict.behind and verdict.works else ""
    return f"slow: {quiet}{behind}{works}"


@dataclass(slots=True)
class Announcer:
    """Decides when a verdict is worth a line: when groups are set up, when nothing moves for long, when it moves again."""

    busy_seconds: float
    _told: State | None = None
    _next_at: float = _FIRST_WORD_SECONDS
    _since: float = 0.0

    def line(self, verdict: Verdict, count: int) -> str | None:
        """The line to print now, None most of the time; `count` is how many ranks were looked at."""
        state = verdict.state
        if state is State.RUNNING:
            if self._told is None or self._told is State.STARTING:
                self._told, self._next_at = State.RUNNING, _FIRST_WORD_SECONDS
                return f"running: process groups are set up on {count} rank{'s' * (count != 1)} of this host"
            if self._told is not State.RUNNING and verdict.quiet_seconds < self._since:
                self._told, self._next_at = State.RUNNING, _FIRST_WORD_SECONDS
                return f"running again after {self._since:.0f} s"
            return None
        if state.hung or verdict.quiet_seconds < (
            _FIRST_WORD_SECONDS if state is not self._told else self._next_at
        ):
            return None
        if state is State.STARTING and not verdict.waiting:
            return None
        self._told, self._since = state, verdict.quiet_seconds
        self._next_at = verdict.quiet_seconds * _AGAIN
        return in_words(verdict, self.busy_seconds)


def _doing(verdict: Verdict) -> str:
    """`rank 1 saves or loads a checkpoint (train.py:40 in save)`."""
    who = tuple(rank for rank, _ in verdict.at)
    verb = _DOES[verdict.phase or ""][len(who) != 1]
    places = sorted({place for _, place in verdict.at if place})
    where = f" ({'; '.join(places[:3])})" if places else ""
    return f"{ranks(who)} {verb}{where}"


def ranks(numbers: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, numbers[:16])) + (", …" if len(numbers) > 16 else "")
    return f"rank{'s' if len(numbers) != 1 else ''} {shown}"
