"""Looks at the ranks of this host: their own reports, joined with what the kernel says of their processes."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nccldoctor.collect import procfs
from nccldoctor.collect.intake import Intake, RankState
from nccldoctor.collect.watchdog import Gpu, Look

Gpus = Callable[[Sequence[RankState]], Mapping[int, Gpu | None]]


def look_at_ranks(intake: Intake, *, closely: bool, gpus: Gpus = lambda ranks: {}) -> list[Look]:
    """One look per living rank, by rank; a rank that has not told its number yet is left out.

    `closely` also counts what their child processes do, which costs a walk over all processes of the host, and asks
    `gpus` what the ranks' GPUs do.
    """
    now = time.monotonic()
    looks: dict[int, Look] = {}
    at = gpus(list(intake.ranks.values())) if closely else {}
    for state in list(intake.ranks.values()):
        reading = procfs.read(state.pid)
        if state.rank is None or reading is None or reading.state in "ZX":
            continue
        looks[state.rank] = _look(state, reading, now, closely, at.get(state.pid))
    return [looks[rank] for rank in sorted(looks)]


def _look(
    state: RankState, reading: procfs.Reading, now: float, closely: bool, gpu: Gpu | None
) -> Look:
    status = state.status
    children = reading.children_cpu_seconds
    for pid in procfs.descendants(state.pid) if closely else ():
        below = procfs.read(pid)
        if below is not None:
            children += below.cpu_seconds + below.children_cpu_seconds
    return Look(
        rank=int(state.rank or 0),
        stage=str(status.get("stage", "python")),
        counters=counters(status),
        completed=completed(status),
        phase=status.get("phase"),
        waiting=bool(status.get("waiting")),
        moving=int(status.get("moving") or 0),
        silent=now - state.heard,
        process_state=reading.state,
        cpu_seconds=reading.cpu_seconds,
        children_cpu_seconds=children,
        io_bytes=procfs.written_bytes(state.pid) or 0,
        output_bytes=state.output_bytes,
        spins=bool(status.get("cuda")),
        place=_place(status),
        gpu=gpu,
        leaving=bool(status.get("leaving")),
    )


def _place(status: Mapping[str, Any]) -> str:
    """The line of the program that the main thread is in: `train.py:40 in save`."""
    try:
        name, file, line = status.get("user") or status["frame"]
        return f"{Path(file).name}:{line}" + (f" in {name}" if name != "<module>" else "")
    except (KeyError, TypeError, ValueError):
        return ""


def counters(status: Mapping[str, Any]) -> dict[str, int]:
    """Sequence numbers per process group, as this rank last told them."""
    groups = status.get("groups") or {}
    return {str(name): int(entry[0]) for name, entry in groups.items()}


def completed(status: Mapping[str, Any]) -> int:
    """How many collectives have ended on this rank, over all groups, as the flight recorder knows."""
    groups = status.get("recorder") or {}
    return sum(max(int(g.get("last_completed_collective", 0)), 0) for g in groups.values())


def living(intake: Intake) -> list[RankState]:
    """The ranks' processes that are still there, by rank."""
    found = [s for s in list(intake.ranks.values()) if s.rank is not None and procfs.read(s.pid)]
    return sorted(found, key=lambda s: (int(s.rank or 0), s.pid))
