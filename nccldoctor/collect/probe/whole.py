"""The whole probe: all ranks together, isolation when something failed, and the snapshot of it all."""

from typing import Any

from nccldoctor.collect import nvml
from nccldoctor.collect.probe.isolate import isolate
from nccldoctor.collect.probe.session import Session, snapshot, start

LOOK_EVERY = 40
"""Polls between two looks at the GPUs, about two seconds: clocks and links are told as they are under load."""


def run(session: Session) -> dict[str, Any]:
    """Measures, isolates what failed, and returns the snapshot for `probe.json`."""
    wish = session.wish
    busy: dict[str, Any] = {}
    ticks = 0

    def look() -> None:
        nonlocal ticks
        ticks += 1
        if session.state and ticks % LOOK_EVERY == 0:
            busy.update(nvml.host_state() or {})

    outcome = start(session, wish.mode, "probe", on_tick=look)
    failures = [outcome.failure] if outcome.failure else []
    session.found = {
        "mode": wish.mode,
        "world": session.world,
        "device": session.device,
        "launched_by": session.launched_by,
        "seconds": round(outcome.seconds, 2),
        "ranks": sorted(outcome.ranks, key=lambda rank: int(rank["rank"])),
        "rows": outcome.rows,
        "skipped": outcome.skipped,
    }
    wrong = any(row["wrong"] for row in outcome.rows)
    if failures or wrong:
        session.say("something failed: each device alone, then in pairs")
        rows, more = isolate(session)
        session.found["rows"] = [*outcome.rows, *rows]
        failures += more
    session.found["failures"] = [failure.to_dict() for failure in failures]
    return snapshot(session, busy or session.state)
