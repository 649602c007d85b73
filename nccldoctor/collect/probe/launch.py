"""Starts the probe's ranks and watches them: each step has a deadline, and no wedged GPU outlives it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nccldoctor
from nccldoctor.collect.probe.plan import Settings

POLL_SECONDS = 0.05
STACK_SECONDS = 0.7
GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Place:
    """One rank to start here: its global and local rank, and the CUDA device (None on CPU)."""

    rank: int
    local_rank: int = 0
    device: int | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A step that did not end in time (`stuck`), or whose rank died (`failed`). `missing` never reached the step."""

    step: str
    kind: str
    ranks: tuple[int, ...]
    missing: tuple[int, ...] = ()
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "kind": self.kind,
            "ranks": list(self.ranks),
            "missing": list(self.missing),
            "text": self.text,
        }


@dataclass(slots=True)
class Outcome:
    """What one launch measured. `failure` is None when every rank came to its end."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    ranks: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    failure: Failure | None = None
    seconds: float = 0.0


class _Rank:
    """One running rank: its process, and the tail of its records."""

    def __init__(
        self, place: Place, process: "subprocess.Popen[bytes]", records: Path, output: Path
    ) -> None:
        self.place, self.process, self.path, self.output = place, process, records, output
        self.step, self.since, self.done = "start", time.monotonic(), False
        self.members: tuple[int, ...] = ()
        self.records: list[dict[str, Any]] = []
        self._offset = 0

    def read(self) -> None:
        """Takes what the rank has written since the last look; a half-written line waits for the next."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for raw in whole.splitlines():
            record = json.loads(raw)
            self.records.append(record)
            self.since = time.monotonic()
            if record["kind"] == "begin":
                self.step, self.members = record["step"], tuple(record.get("members", ()))
            self.done = self.done or record["kind"] == "done"


def launch(
    settings: Settings,
    places: Sequence[Place],
    folder: Path,
    *,
    world: int,
    step_seconds: float,
    init_seconds: float,
    environment: Mapping[str, str],
    name: str = "probe",
    on_row: Callable[[dict[str, Any]], None] = lambda row: None,
    on_tick: Callable[[], None] = lambda: None,
) -> Outcome:
    """Runs the ranks of `places` to their end or to a deadline; output and records are left in `folder`.

    `step_seconds` bounds each step and `init_seconds` what comes before the first (import, communicator).
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings_file = folder / f"{name}-settings.json"
    settings_file.write_text(settings.to_json(), encoding="utf-8")
    begun = time.monotonic()
    running: list[_Rank] = []
    try:
        for place in places:
            running.append(_start(place, settings_file, folder, world, environment, name))
        failure = _watch(running, step_seconds, init_seconds, on_row, on_tick)
    finally:
        for one in running:
            _kill(one.process)
    outcome = Outcome(failure=failure, seconds=time.monotonic() - begun)
    for one in running:
        one.read()
        if not one.output.stat().st_size:
            one.output.unlink()
        for record in one.records:
            kind = record["kind"]
            fact = {key: value for key, value in record.items() if key != "kind"}
            if kind == "row":
                outcome.rows.append(fact)
            elif kind == "rank":
                outcome.ranks.append(fact)
            elif kind == "skipped" and one is running[0]:
                outcome.skipped.append(fact)
    return outcome


def _start(
    place: Place,
    settings_file: Path,
    folder: Path,
    world: int,
    environment: Mapping[str, str],
    name: str,
) -> _Rank:
    own = {"RANK": str(place.rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(place.local_rank)}
    if place.device is not None:
        own["NCCLDOCTOR_PROBE_DEVICE"] = str(place.device)
    home = str(Path(nccldoctor.__file__).parent.parent)
    path = os.pathsep.join(p for p in (home, environment.get("PYTHONPATH", "")) if p)
    records = folder / f"{name}-rank{place.rank}.jsonl"
    records.unlink(missing_ok=True)
    command = [sys.executable, "-m", "nccldoctor.collect.probe.worker"]
    said = records.with_suffix(".out")
    with said.open("wb") as output:
        process = subprocess.Popen(
            [*command, str(settings_file), str(records)],
            env={**environment, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **own},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return _Rank(place, process, records, said)


def _watch(
    running: Sequence[_Rank],
    step_seconds: float,
    init_seconds: float,
    on_row: Callable[[dict[str, Any]], None],
    on_tick: Callable[[], None],
) -> Failure | None:
    told: dict[int, int] = {}
    died: float | None = None
    while True:
        for one in running:
            one.read()
            for record in one.records[told.get(one.place.rank, 0) :]:
                if record["kind"] == "row":
                    on_row(record)
            told[one.place.rank] = len(one.records)
        ended = [one for one in running if one.process.poll() is not None]
        bad = [one for one in ended if one.process.returncode]
        if len(ended) == len(running) and not bad:
            return None
        now = time.monotonic()
        if bad:
            died = died or now
            if len(ended) == len(running) or now - died > GRACE_SECONDS:
                return _failed(bad)
        early = ("start", "import torch", "init")
        late = [
            one
            for one in running
            if one not in ended
            and now - one.since > (init_seconds if one.step in early else step_seconds)
        ]
        if late and not bad:
            return _stuck(running, late)
        on_tick()
        time.sleep(POLL_SECONDS)


def _failed(bad: Sequence[_Rank]) -> Failure:
    first = min(bad, key=lambda one: one.since)
    code = first.process.returncode
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return Failure(
        step=first.step,
        kind="failed",
        ranks=first.members or tuple(sorted(one.place.rank for one in bad)),
        missing=(first.place.rank,),
        text=f"rank {first.place.rank} ended with {how} in {first.step}",
    )


def _stuck(running: Sequence[_Rank], late: Sequence[_Rank]) -> Failure:
    """Who waits where; the ranks of the waiting step that are not in it are missing."""
    step = max(late, key=lambda one: len(one.records))
    inside = {one.place.rank for one in running if one.step == step.step and not one.done}
    local = {one.place.rank for one in running}
    expected = set(step.members) & local or local
    for one in running:
        if one.process.poll() is None:
            os.kill(one.process.pid, signal.SIGUSR1)
    time.sleep(STACK_SECONDS)
    waits = ", ".join(f"rank {one.place.rank} in {one.step}" for one in running[:16])
    return Failure(
        step=step.step,
        kind="stuck",
        ranks=tuple(sorted(expected)),
        missing=tuple(sorted(expected - inside)),
        text=f"no progress: {waits}",
    )


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Ends the rank's whole session. A process stuck in the driver may stay a zombie: it is not waited for."""
    if process.poll() is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=GRACE_SECONDS)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass
