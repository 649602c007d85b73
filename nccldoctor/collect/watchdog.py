"""Is the job alive? A state machine over what ranks tell and what the kernel tells of them; it reads no clock itself."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

_MUTE = 5.0
_LEAVING = 50.0
"""An interpreter that is on its way out says nothing more; under load that takes some seconds."""
_TOLERATED = ("compiling", "checkpointing", "evaluating")


class Gpu(str, Enum):
    """What one GPU does, by utilisation, memory traffic and power."""

    IDLE = "idle"
    SPINNING = "spinning"
    WORKING = "working"


class State(str, Enum):
    """What the job is doing, in one word; the last three are hangs."""

    STARTING = "starting"
    RUNNING = "running"
    COMPILING = "compiling"
    EVALUATING = "evaluating"
    CHECKPOINTING = "checkpointing"
    SLOW = "slow"
    FINISHED = "finished"
    SKEWED = "hung (skewed)"
    SYMMETRIC = "hung (symmetric)"
    INIT = "init hang"

    @property
    def hung(self) -> bool:
        return self in (State.SKEWED, State.SYMMETRIC, State.INIT)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds without progress: some ranks behind, none behind, in set-up, and with a rank that visibly works."""

    skewed: float = 45.0
    symmetric: float = 90.0
    init: float = 300.0
    busy: float = 600.0


@dataclass(frozen=True, slots=True)
class Look:
    """One rank at one moment. `counters` are sequence numbers per process group; they only grow, as does `completed`,
    the sum over groups of collectives that have ended: a long queue on the device is progress too.

    `moving` changes whenever the main thread's Python does; `waiting` means that it stands inside a collective, a wait
    or a device synchronisation; `stage` is python, torch or group (initialised); `silent` counts seconds without a word.
    `leaving` when the interpreter is going; `place` is the user's line, for people; `gpu` is what the rank's own GPU does, None where that is not known.
    """

    rank: int
    stage: str = "python"
    counters: Mapping[str, int] = field(default_factory=dict)
    completed: int = 0
    phase: str | None = None
    waiting: bool = False
    moving: int = 0
    silent: float = 0.0
    process_state: str = "S"
    cpu_seconds: float = 0.0
    children_cpu_seconds: float = 0.0
    io_bytes: int = 0
    output_bytes: int = 0
    spins: bool = False
    place: str = ""
    gpu: Gpu | None = None
    leaving: bool = False


@dataclass(slots=True)
class _Track:
    look: Look
    progress_at: float
    active_at: float
    moves: deque[bool] = field(default_factory=lambda: deque(maxlen=20))
    gpu: deque[Gpu | None] = field(default_factory=lambda: deque(maxlen=5))

    def mostly(self, state: Gpu) -> bool:
        """Was this the GPU's state in most of the last looks?"""
        return sum(seen is state for seen in self.gpu) >= 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state, since when nothing has moved, and who is behind (global ranks; empty when none is).

    `works` when a rank in question visibly does something: then even a hang may only be long work. `phase` is the
    compiling, evaluating or checkpointing of the ranks `at` their lines; the GPUs of ranks `spinning` wait in a kernel.
    """

    state: State
    quiet_seconds: float = 0.0
    behind: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    works: bool = False
    phase: str | None = None
    at: tuple[tuple[int, str], ...] = ()
    spinning: tuple[int, ...] = ()


class Watchdog:
    """Takes looks and answers with a verdict. `expected` ranks are those of this host, None when unknown."""

    def __init__(self, limits: Limits, expected: int | None = None) -> None:
        self.limits = limits
        self.expected = expected
        self._tracks: dict[int, _Track] = {}
        self._init_since: float | None = None
        self._init_count = 0

    def observe(self, now: float, looks: Sequence[Look]) -> Verdict:
        for look in looks:
            self._follow(now, look)
        present = {look.rank: look for look in looks}
        if not present:
            return Verdict(State.STARTING)
        if self._in_set_up(present):
            return self._starting(now, present)
        return self._running(now, present)

    def _in_set_up(self, present: Mapping[int, Look]) -> bool:
        """Are groups still missing? Where one rank has its groups, all have passed: one that does not say so is mute."""
        ready = [look for look in present.values() if look.stage == "group"]
        if not ready:
            return True
        if self.expected is not None and len(self._tracks) < self.expected:
            return True
        return any(look.stage != "group" and look.silent < _MUTE for look in present.values())

    def _follow(self, now: float, look: Look) -> None:
        track = self._tracks.get(look.rank)
        if track is None:
            self._tracks[look.rank] = _Track(look, now, now)
            return
        before, track.look = track.look, look
        moved = (before.counters, before.completed) != (look.counters, look.completed)
        if moved or before.stage != look.stage:
            track.progress_at = track.active_at = now
            track.moves.clear()
            return
        track.gpu.append(look.gpu)
        track.moves.append(look.moving != before.moving and look.silent < _MUTE)
        # One change now and then is a wait with a time-out that begins anew, as a data loader's.
        moving = len(track.moves) > 3 and sum(track.moves) >= 0.4 * len(track.moves)
        spinning = track.mostly(Gpu.SPINNING)
        if track.mostly(Gpu.WORKING) or _active(before, look, moving=moving, spinning=spinning):
            track.active_at = now

    def _starting(self, now: float, present: Mapping[int, Look]) -> Verdict:
        """Set-up is stuck when ranks have waited in it for the limit and no further rank has come."""
        there = [r for r, k in present.items() if k.phase == "initialising" or k.stage == "group"]
        if not there:
            self._init_since = None
            return Verdict(State.STARTING)
        if self._init_since is None or len(there) != self._init_count:
            self._init_since, self._init_count = now, len(there)
        quiet = now - self._init_since
        behind = tuple(sorted(set(present) - set(there)))
        state = State.INIT if quiet >= self.limits.init else State.STARTING
        return Verdict(state, quiet, behind, tuple(sorted(there)))

    def _running(self, now: float, present: Mapping[int, Look]) -> Verdict:
        quiet = now - max(self._tracks[rank].progress_at for rank in present)
        behind = culprits(present)
        waiting = tuple(sorted(r for r, k in present.items() if k.waiting and r not in behind))
        suspects = behind or tuple(sorted(present))
        limit = self.limits.skewed if behind else self.limits.symmetric
        phase = next((present[r].phase for r in suspects if present[r].phase in _TOLERATED), None)
        at = tuple((r, present[r].place) for r in suspects if phase and present[r].phase == phase)
        works = any(now - self._tracks[r].active_at < limit / 2 for r in suspects)
        if any(look.leaving for look in present.values()):
            limit = max(limit, _LEAVING)
        if phase is not None or (quiet >= limit and works):
            limit = self.limits.busy
        if quiet >= limit:
            state = State.SKEWED if behind else State.SYMMETRIC
        elif phase is not None and quiet > 2:
            state = State(phase)
        else:
            state = State.SLOW if quiet >= limit / 2 or quiet > 30 else State.RUNNING
        spinning = tuple(sorted(r for r in present if self._tracks[r].mostly(Gpu.SPINNING)))
        return Verdict(state, quiet, behind, waiting, works, phase, at, spinning)


def culprits(present: Mapping[int, Look]) -> tuple[int, ...]:
    """Ranks that are behind in some group and ahead in none: a rank that is both waits for someone itself.

    In a cycle every rank is both; then all that are behind are named.
    """
    highest: dict[str, int] = {}
    lowest: dict[str, int] = {}
    for look in present.values():
        for group, count in look.counters.items():
            highest[group] = max(highest.get(group, count), count)
            lowest[group] = min(lowest.get(group, count), count)
    behind, ahead = set(), set()
    for rank, look in present.items():
        if look.stage != "group" and any(highest.values()):
            behind.add(rank)
        for group, count in look.counters.items():
            if count < highest[group]:
                behind.add(rank)
            if count > lowest[group]:
                ahead.add(rank)
    return tuple(sorted(behind - ahead or behind))


def _active(before: Look, now: Look, *, moving: bool, spinning: bool) -> bool:
    """Does a rank visibly work although no counter moves?

    Spinning in a device synchronisation is no work, nor is CPU time beside a GPU that spins. A main thread that moves
    stays a sign of life: a pipeline of sends and receives moves no counter, and its GPUs wait for each other.
    """
    if now.process_state == "T":
        return False
    if now.output_bytes != before.output_bytes:
        return True
    if now.children_cpu_seconds - before.children_cpu_seconds > 0.05:
        return True
    if now.io_bytes - before.io_bytes > 1 << 16:
        return True
    if moving:
        return True
    if now.waiting or spinning:
        return False
    return not now.spins and now.cpu_seconds - before.cpu_seconds > 0.05
