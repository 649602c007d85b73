"""One watched job from its start to its end: signals, the first failure, hangs, and that nothing of it survives."""

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from nccldoctor.collect import procfs
from nccldoctor.collect.intake import Intake

HANG_EXIT = 124
_GUARD = Path(__file__).parent / "guard.py"
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Ended:
    """How one rank ended; a negative code is a signal. `first` marks the first failure."""

    rank: int | None
    local_rank: int | None
    pid: int
    exit_code: int
    first: bool = False
    by_launcher: bool = False


@dataclass(slots=True)
class Outcome:
    """What became of the job; `exit_code` is what nccldoctor itself ends with."""

    exit_code: int = 0
    command_code: int | None = None
    ended: list[Ended] = field(default_factory=list)
    hang: dict[str, Any] | None = None
    stopped_by: str | None = None
    left: list[int] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Session:
    """Starts `command` and stays until it is over.

    `tick` is called about four times a second and may return why the job is to be ended; `gate` is called once in
    each attempt of the job, before anything is killed, with the reason; `again` before it where an earlier attempt (its
    number, from 1) has left evidence. `grace_seconds` lie between a request to end and SIGKILL.
    """

    command: tuple[str, ...]
    environ: dict[str, str]
    intake: Intake
    run: str
    grace_seconds: float = 10.0
    tick: Callable[["Session"], str | None] = lambda _: None
    gate: Callable[["Session", str], None] = lambda _, __: None
    again: Callable[[int], None] = lambda _: None
    process: "subprocess.Popen[bytes] | None" = None
    outcome: Outcome = field(default_factory=Outcome)
    _signals: list[int] = field(default_factory=list)
    _forwarded: int = 0
    _kill_at: float | None = None
    _gated_in: int | None = None
    _doomed: list[int] = field(default_factory=list)
    _doomed_at: float = 0.0
    _first: tuple[int, ...] = ()
    _failed: list[Ended] = field(default_factory=list)

    def supervise(self) -> Outcome:
        """Runs the job to its end; whatever happens here, no process of it is left."""
        previous = {number: signal.signal(number, self._note) for number in _FORWARDED}
        guard = None
        try:
            self.process = self._start()
            guard = _start_guard(self.run, self.process.pid)
            self._loop(self.process)
        finally:
            roots = [self.process.pid] if self.process else []
            self.outcome.left = procfs.end("NCCLDOCTOR_RUN", self.run, roots)
            if self.process is not None:
                self.outcome.command_code = self.process.wait()
            if guard is not None:
                _dismiss(guard)
            self.intake.finish(5.0)
            for number, handler in previous.items():
                signal.signal(number, handler)
        self._answer_agents()
        self.outcome.troubles += self.intake.troubles()
        self.outcome.exit_code = exit_code(self.outcome)
        return self.outcome

    def stop(self, why: str) -> None:
        """Ends the job: SIGTERM now, SIGKILL to all that is left after the grace."""
        self.outcome.stopped_by = self.outcome.stopped_by or why
        self.intake.close_record(quiet=True)
        if self.process is not None:
            procfs.send(signal.SIGTERM, [self.process.pid])
            procfs.send(signal.SIGCONT, procfs.descendants(self.process.pid))
        self._kill_at = time.monotonic() + self.grace_seconds

    def _start(self) -> "subprocess.Popen[bytes]":
        out, err = self.intake.pipes()
        ends = ((os.fstat(fd).st_dev, os.fstat(fd).st_ino) for fd in (out, err))
        self.environ["NCCLDOCTOR_PIPES"] = ",".join(f"{dev}:{ino}" for dev, ino in ends)
        try:
            return subprocess.Popen(
                self.command, env=self.environ, stdout=out, stderr=err, start_new_session=True
            )
        finally:
            os.close(out)
            os.close(err)

    def _note(self, number: int, _: FrameType | None) -> None:
        self._signals.append(number)

    def _loop(self, process: "subprocess.Popen[bytes]") -> None:
        while process.poll() is None:
            self.intake.changed.wait(0.1)
            self.intake.changed.clear()
            self._answer_agents()
            self._pass_signals(process)
            if self._doomed and time.monotonic() > self._doomed_at:
                procfs.send(signal.SIGKILL, self._doomed)
                self._doomed = []
            if self._kill_at is not None:
                if time.monotonic() > self._kill_at:
                    if self._forwarded == 1:
                        self.take_evidence("the job did not end when it was asked to")
                    return
            elif why := self.tick(self):
                self.stop(why)

    def _pass_signals(self, process: "subprocess.Popen[bytes]") -> None:
        """The first signal goes to the job once, and the grace begins; a second one ends everything at once."""
        while self._signals:
            number = self._signals.pop(0)
            self._forwarded += 1
            if self._forwarded == 1:
                self.outcome.stopped_by = signal.Signals(number).name
                self.intake.close_record(quiet=False)
                procfs.send(number, [process.pid])
                self._kill_at = time.monotonic() + self.grace_seconds
            else:
                self._kill_at = 0.0

    def _answer_agents(self) -> None:
        while self.intake.asked:
            message, address = self.intake.asked.pop(0)
            ordered = self.outcome.stopped_by is not None
            if message["kind"] == "failed":
                failed = [e for e in _ended(message, ()) if e.exit_code]
                if not self._first and not ordered:
                    self._first = tuple(e.pid for e in failed)
                    self._failed = [replace(e, first=True) for e in failed]
                if self.outcome.stopped_by is None:
                    self.take_evidence("a rank has failed")
                self.intake.give_leave(address)
                # The agent gives the others 30 seconds of its own; ours are fewer. It may start new ones then.
                self._doomed = [pid for pid, code, _ in message["ranks"].values() if code is None]
                self._doomed_at = time.monotonic() + self.grace_seconds
            else:
                ended = _ended(message, self._first, ordered=ordered)
                again = {e.pid for e in ended}
                if any(e.exit_code for e in ended):  # an earlier attempt's failure is the first one
                    ended = [*(e for e in self._failed if e.pid not in again), *ended]
                self.outcome.ended = ended

    def interrupted(self) -> bool:
        """Has a signal come that is still to be passed on?"""
        return bool(self._signals)

    def forget_evidence(self) -> None:
        """The job has recovered: the hang did not happen, and the next trouble finds the gate open."""
        self._gated_in = None
        self.outcome.hang = None

    def take_evidence(self, why: str) -> None:
        """Evidence is taken once in each attempt of the job, and never at the cost of the job's end."""
        attempt = self.intake.attempt()
        if self._gated_in is not None and attempt <= self._gated_in:
            return
        try:
            if self._gated_in is not None:
                self.again(self._gated_in + 1)
            self._gated_in = attempt
            self.gate(self, why)
        except Exception as error:
            self.outcome.troubles.append(f"evidence incomplete: {type(error).__name__}: {error}")


def exit_code(outcome: Outcome) -> int:
    """124 after a hang that was ended, 128+signal when asked to stop, else the first failing rank's own code."""
    if outcome.hang is not None and outcome.hang.get("ended_job"):
        return HANG_EXIT
    if outcome.stopped_by in {number.name for number in _FORWARDED}:
        return 128 + signal.Signals[outcome.stopped_by]
    first = [e for e in outcome.ended if e.first] or [
        e for e in outcome.ended if e.exit_code and not e.by_launcher
    ]
    if outcome.command_code and first:
        return _shell_code(first[0].exit_code)
    return _shell_code(outcome.command_code or 0)


def _shell_code(code: int) -> int:
    return 128 - code if code < 0 else code


def _ended(
    message: Mapping[str, Any], first: tuple[int, ...], *, ordered: bool = False
) -> list[Ended]:
    """The agent's account: {local rank: [process number, exit code or None, rank]}.

    `ordered` when the job was being ended already: then no exit is a failure of the rank's own. On several hosts that
    end a hang together, one loses its peers a moment before its own order comes.
    """
    found = []
    for local, (pid, code, rank) in sorted(message["ranks"].items(), key=lambda item: int(item[0])):
        if code is None:
            continue
        found.append(
            Ended(
                rank=int(rank) if rank is not None else None,
                local_rank=int(local),
                pid=pid,
                exit_code=code,
                first=pid in first,
                by_launcher=pid not in first
                and (ordered or (bool(first) and code in (-signal.SIGTERM, -signal.SIGKILL))),
            )
        )
    return found


def new_run() -> str:
    return secrets.token_hex(8)


def _start_guard(run: str, job: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(_GUARD), f"NCCLDOCTOR_RUN={run}", str(job)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _dismiss(guard: "subprocess.Popen[bytes]") -> None:
    try:
        guard.communicate(b"done\n", timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        guard.kill()
        guard.wait()
