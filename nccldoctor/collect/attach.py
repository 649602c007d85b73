"""Looks at a job that is already running, from outside alone: /proc, py-spy without stopping anything, and RAS."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nccldoctor.collect import procfs, ras, stacks
from nccldoctor.collect.intake import RankState
from nccldoctor.collect.launch import inside_launcher
from nccldoctor.collect.watchdog import Look, State, Verdict

_DEFAULT_RAS = "localhost:28028"
_WAITS = ("/torch/distributed/", "/torch/cuda/")


def ranks_below(pid: int) -> list[RankState]:
    """The ranks at or below a process, by rank: the topmost processes to which a launcher has given a number."""
    found: dict[int, RankState] = {}
    for candidate in (pid, *procfs.descendants(pid)):
        environ = procfs.environment(candidate)
        told = inside_launcher(environ)
        if told is not None and told[1] not in found:
            local = environ.get("LOCAL_RANK", "")
            state = RankState(
                candidate, told[1], int(local) if local.isdigit() else None, time.monotonic(), None
            )
            found[told[1]] = state
    if not found and procfs.read(pid) is not None:
        found[0] = RankState(pid, 0, 0, time.monotonic(), None)
    return [found[rank] for rank in sorted(found)]


def ras_address(ranks: list[RankState]) -> str:
    """Where the job's RAS listens, as its environment says."""
    for state in ranks:
        address = procfs.environment(state.pid).get("NCCL_RAS_ADDR")
        if address:
            return address
    return _DEFAULT_RAS


@dataclass(slots=True)
class Attached:
    """Takes looks at `ranks`. Counters come from RAS where it answers, else from the main thread's stack moving on."""

    ranks: list[RankState]
    address: str | None
    ask: Callable[..., str | None] = ras.ask
    _stacks: dict[int, int] = field(default_factory=dict)
    _moved: dict[int, int] = field(default_factory=dict)

    def look(self) -> list[Look]:
        """One look per living rank."""
        counts = self._counts()
        looks = []
        for state in self.ranks:
            reading = procfs.read(state.pid)
            if reading is None or reading.state in "ZX":
                continue
            rank = int(state.rank or 0)
            signature, waiting = self._stand(state)
            if signature != self._stacks.get(state.pid):
                self._stacks[state.pid] = signature
                self._moved[state.pid] = self._moved.get(state.pid, 0) + 1
            own = {f"stack of rank {rank}": self._moved[state.pid]}
            looks.append(
                Look(
                    rank=rank,
                    stage="group",
                    counters=counts.get(state.pid, own),
                    waiting=waiting,
                    moving=signature,
                    process_state=reading.state,
                    cpu_seconds=reading.cpu_seconds,
                    children_cpu_seconds=reading.children_cpu_seconds,
                    io_bytes=procfs.written_bytes(state.pid) or 0,
                    spins=bool(counts),
                )
            )
        return looks

    def _counts(self) -> dict[int, dict[str, int]]:
        """Collectives launched per process and communicator."""
        if self.address is None:
            return {}
        answer = self.ask(self.address, "STATUS", form="json", seconds=2.0)
        return ras.launched_by_process(answer) if answer else {}

    def _stand(self, state: RankState) -> tuple[int, bool]:
        threads = stacks.of_process(state.pid, 5.0, gently=True) or []
        main = next((t for t in threads if t.get("thread_name") == "MainThread"), None)
        frames: list[Mapping[str, Any]] = (main or {}).get("frames", [])
        places = tuple((f.get("filename"), f.get("name"), f.get("line")) for f in frames)
        top = str(frames[0].get("filename")) if frames else ""
        return hash(places) & 0xFFFFFFFF, any(part in top for part in _WAITS)


@dataclass(slots=True)
class RasOnly:
    """Takes looks through RAS alone, from anywhere that reaches its port; ranks are those of each communicator."""

    address: str
    ask: Callable[..., str | None] = ras.ask
    lost: bool = False

    def look(self) -> list[Look]:
        answer = self.ask(self.address, "STATUS", form="json", seconds=5.0)
        self.lost = answer is None
        return [
            Look(rank=rank, stage="group", counters=counts, waiting=True)
            for rank, counts in sorted(ras.launched(answer or "").items())
        ]


def name_by_stack(verdict: Verdict, looks: Sequence[Look]) -> Verdict:
    """Where no counter tells who is behind, the ranks that do not wait while others wait are."""
    if verdict.state is not State.SYMMETRIC:
        return verdict
    waiting = tuple(look.rank for look in looks if look.waiting)
    behind = tuple(look.rank for look in looks if not look.waiting)
    if not waiting or not behind:
        return verdict
    return Verdict(State.SKEWED, verdict.quiet_seconds, behind, waiting)
