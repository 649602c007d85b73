"""A probe under way: who takes part, in which environment, and how its ranks are started."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from nccldoctor.collect import nvml
from nccldoctor.collect.probe.launch import Outcome, Place, launch
from nccldoctor.collect.probe.plan import GIB, Settings
from nccldoctor.errors import DoctorError

Say = Callable[[str], None]

FIRST_PORT, PORTS = 20000, 10000
"""Where the ranks of a Slurm job meet, by the job's number, unless MASTER_PORT says otherwise."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asks of a probe. None = choose: all GPUs, or two ranks on the CPU."""

    folder: Path
    mode: str = "full"
    ranks: int | None = None
    device: str | None = None
    largest_bytes: int = GIB
    step_seconds: float = 60.0
    init_seconds: float = 120.0
    seconds: float = 600.0
    total_seconds: float | None = None
    debug: bool = True
    plant: str = ""


@dataclass(slots=True)
class Session:
    """A probe under way: the ranks of this process, the environment they get, and what was found."""

    wish: Wish
    say: Say
    places: list[Place]
    world: int
    device: str
    environment: dict[str, str]
    launched_by: str  # nccldoctor, torchrun or slurm
    state: dict[str, Any] | None = None
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def is_first(self) -> bool:
        """Does this process hold rank 0, and so write the report?"""
        return any(place.rank == 0 for place in self.places)


def prepare(wish: Wish, say: Say) -> Session:
    """Who takes part: the ranks that torchrun or Slurm gave this process, else every GPU of this host."""
    environment = dict(os.environ)
    state = nvml.host_state()
    device = wish.device or ("cuda" if state or Path("/dev/kfd").exists() else "cpu")
    place, world, launched_by = _given(environment)
    if launched_by == "slurm":
        job = int(environment.get("SLURM_JOB_ID", "0"))
        environment.setdefault("MASTER_PORT", str(FIRST_PORT + job % PORTS))
    if device == "cuda" and not state and not Path("/dev/kfd").exists():
        raise DoctorError("No GPU answers here: install its driver, or probe with --device cpu")
    if place is not None:
        places = [place if device == "cuda" else replace(place, device=None)]
    else:
        count = wish.ranks or (_gpu_count(state) if device == "cuda" else 2)
        if device == "cuda" and count > _gpu_count(state):
            raise DoctorError(
                f"{count} ranks need {count} GPUs, and {_gpu_count(state)} are visible"
            )
        places = [Place(r, r, r if device == "cuda" else None) for r in range(count)]
        world = count
    if wish.debug:
        environment.setdefault("NCCL_DEBUG", "INFO")
        environment.setdefault("NCCL_DEBUG_SUBSYS", "INIT,ENV,BOOTSTRAP,NET,GRAPH")
        if device == "cuda":
            environment.setdefault("NCCL_TOPO_DUMP_FILE", str(wish.folder / "nccl_topo.xml"))
    if "NCCL_DEBUG" in environment:
        environment.setdefault("NCCL_DEBUG_FILE", str(wish.folder / "nccl_debug_%h_%p.log"))
    return Session(wish, say, places, world, device, environment, launched_by, state)


def wait_for_others(session: Session) -> list[Path]:
    """The files of ranks under other supervisors, where the run folder is shared; waits for one step's deadline."""
    last = time.monotonic() + session.wish.step_seconds + 5
    while True:
        files = sorted(session.wish.folder.glob("probe-rank*.json"))
        if len(files) >= session.world - len(session.places) or time.monotonic() > last:
            return files
        time.sleep(0.2)


def snapshot(session: Session, state: Mapping[str, Any] | None) -> dict[str, Any]:
    """The file that `nccldoctor parse` reads: what was measured, and the GPUs as they were meanwhile."""
    return {
        "nccldoctor": "snapshot",
        "schema": 1,
        "taken": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "host": socket.gethostname().partition(".")[0],
        **({k: v for k, v in state.items() if k != "host"} if state else {}),
        "probe": session.found,
    }


def start(
    session: Session,
    steps: str,
    name: str,
    *,
    places: Sequence[Place] | None = None,
    extra: Mapping[str, str] | None = None,
    on_tick: Callable[[], None] = lambda: None,
) -> Outcome:
    """One launch of `steps`; `places` are renumbered from 0 when they are fewer than the session's."""
    wish, chosen = session.wish, places or session.places
    folder = wish.folder / "ranks"
    folder.mkdir(parents=True, exist_ok=True)
    rendezvous = folder / f"{name}.store"
    rendezvous.unlink(missing_ok=True)
    alone = session.launched_by == "nccldoctor" or places is not None
    settings = Settings(
        steps=steps,
        device=session.device,
        backend="nccl" if session.device == "cuda" else "gloo",
        store=str(rendezvous) if alone else "",
        largest_bytes=wish.largest_bytes,
        seconds=wish.seconds,
        until=time.monotonic() + wish.total_seconds if wish.total_seconds else 0.0,
        plant=_plant_for(wish.plant, chosen) if places is not None else wish.plant,
        diagnostics=steps in ("quick", "full"),
    )
    numbered = [replace(p, rank=i) for i, p in enumerate(chosen)] if places is not None else chosen
    return launch(
        settings,
        numbered,
        folder,
        world=session.world if places is None else len(numbered),
        step_seconds=wish.step_seconds,
        init_seconds=wish.init_seconds,
        environment={**session.environment, **(extra or {})},
        name=name,
        on_row=lambda row: session.say(describe(row)) if places is None else None,
        on_tick=on_tick,
    )


def describe(row: Mapping[str, Any]) -> str:
    extra = " ".join(str(x) for x in (row["variant"], row["group"]) if x and x != "world")
    wrong = f", {row['wrong']} WRONG" if row["wrong"] else ""
    bus = row["bus_gbytes_per_second"]
    return (
        f"{row['op']:<14}{row['size_bytes']:>12} B {row['datatype']:<9}{extra:<8}"
        f"{row['time_us']:>12.1f} us {f'{bus:.2f}' if bus else '-':>9} GB/s{wrong}"
    )


def _given(environment: Mapping[str, str]) -> tuple[Place | None, int, str]:
    """The rank that torchrun or `srun` gave to this process; Slurm's first node becomes MASTER_ADDR."""
    if "RANK" in environment and "WORLD_SIZE" in environment:
        local = int(environment.get("LOCAL_RANK", "0"))
        return (
            Place(int(environment["RANK"]), local, local),
            int(environment["WORLD_SIZE"]),
            "torchrun",
        )
    if int(environment.get("SLURM_NTASKS", "1")) > 1 and "SLURM_PROCID" in environment:
        if not environment.get("MASTER_ADDR"):
            raise DoctorError(
                "Under srun, say where rank 0 is: export MASTER_ADDR=$(scontrol show hostnames | head -1)"
            )
        local = int(environment.get("SLURM_LOCALID", "0"))
        return (
            Place(int(environment["SLURM_PROCID"]), local, local),
            int(environment["SLURM_NTASKS"]),
            "slurm",
        )
    return None, 0, "nccldoctor"


def _gpu_count(state: Mapping[str, Any] | None) -> int:
    if state:
        return len(nvml.visible_here(state["gpus"]))
    command = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return int(asked.stdout.strip() or 0) if asked.returncode == 0 else 0


def _plant_for(plant: str, places: Sequence[Place]) -> str:
    """The planted fault follows its rank into a smaller job."""
    kind, _, rest = plant.partition(":")
    where, separator, amount = rest.partition(":")
    ranks = [place.rank for place in places]
    if not kind or int(where) not in ranks:
        return ""
    return f"{kind}:{ranks.index(int(where))}{separator}{amount}"


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None
