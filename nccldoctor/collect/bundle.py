"""The run folder: where everything that a run leaves behind lies, and nccldoctor's own notes in it."""

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nccldoctor.collect import hostfacts
from nccldoctor.collect.environment import Setting
from nccldoctor.collect.launch import Plan
from nccldoctor.collect.session import Outcome
from nccldoctor.errors import DoctorError

SCHEMA = 1
_DUMP_PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


def make(folder: Path | None, environ: Mapping[str, str], *, shared: bool = False) -> Path:
    """The run folder, made if need be and proved writable; ranks of one Slurm or torchrun job share theirs.

    `shared` folders may hold the notes of other hosts of the same job already.
    Raises DoctorError, with what to do, where it cannot be written.
    """
    if folder is None:
        job = environ.get("TORCHELASTIC_RUN_ID", "") or environ.get("SLURM_JOB_ID", "")
        stamp = time.strftime("%Y%m%d-%H%M%S")
        folder = Path(f"nccldoctor-run-{job if job not in ('', 'none') else stamp}")
        if not job and folder.exists():
            folder = Path(f"{folder}-{os.getpid()}")
    folder = folder.absolute()
    if not shared and any(folder.glob("run*.json")):
        raise DoctorError(
            f"{folder} holds an earlier run; remove it or give another folder with --run-dir"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise DoctorError(
            f"the run folder {folder} cannot be written ({error.strerror}); "
            "give another one with --run-dir FOLDER"
        ) from error
    return folder


def snapshot(folder: Path, name: str, sections: Mapping[str, Any]) -> str | None:
    """Writes one of nccldoctor's own notes as JSON; returns the reason when the disk refuses."""
    body = {"nccldoctor": "snapshot", "schema": SCHEMA, **dict(sorted(sections.items()))}
    target = folder / name
    try:
        part = target.with_name(target.name + ".part")
        part.write_text(json.dumps(body, indent=1, default=str) + "\n")
        part.replace(target)
    except OSError as error:
        return f"{name}: {error.strerror}"
    return None


def write_outcome(
    folder: Path, suffix: str, plan: Plan, wanted: Sequence[Setting], outcome: Outcome
) -> str | None:
    """How the run went: what was started, which variables were set, how every rank ended."""
    host = hostfacts.host_name()
    exits = [{**asdict(ended), "host": host} for ended in outcome.ended]
    if plan.rank is not None and not exits and outcome.command_code is not None:
        code = outcome.command_code
        ordered = outcome.stopped_by is not None and code != 0
        exits = [
            {
                "rank": plan.rank,
                "host": host,
                "exit_code": code,
                "pid": None,
                "by_launcher": ordered,
            }
        ]
    return snapshot(
        folder,
        f"run{suffix}.json",
        {
            "command": list(plan.command),
            "exit_code": outcome.exit_code,
            "exits": exits,
            "hang": outcome.hang,
            "host": host,
            "inside": plan.inside,
            "instrumented": {s.name: s.value for s in wanted if s.kept is None},
            "kept": {s.name: s.kept for s in wanted if s.kept is not None},
            "why": {s.name: s.why for s in wanted},
            "stopped_by": outcome.stopped_by,
            "troubles": outcome.troubles,
        },
    )


def wait_for_ranks(folder: Path, environ: Mapping[str, str], seconds: float = 15.0) -> None:
    """Waits for the notes of the other ranks of the job, for at most `seconds`."""
    sizes = (environ.get(n, "") for n in ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"))
    world = next((int(size) for size in sizes if size.isdigit()), 1)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and len(list(folder.glob("run_rank_*.json"))) < world:
        time.sleep(0.2)


_EVIDENCE = ("evidence*.json", "fr_rank_*", "ras_*", "nvidia-smi*.txt", "report.*")


def set_aside(folder: Path, why: str, suffix: str = "", ranks: Sequence[int] = ()) -> None:
    """Moves evidence beside the run folder: that of a hang that went away, or of an earlier attempt of the job.

    It is no evidence of how the job ended. In a folder that others write into too, `suffix` and `ranks` tell one's own.
    """
    own = (f"evidence{suffix}.json", f"ras_*{suffix}.*", *(f"fr_rank_{rank}" for rank in ranks))
    number = 1
    while (beside := folder.with_name(f"{folder.name}-{why}-{number}")).exists():
        number += 1
    try:
        beside.mkdir()
        for pattern in own if suffix else _EVIDENCE:
            for file in sorted(folder.glob(pattern)):
                file.replace(beside / file.name)
    except OSError:
        return


_CLOCK_GRAIN = 1.0
"""Seconds by which a file's time may lie before the clock's: the kernel stamps files by its last tick."""


def elsewhere(environ: Mapping[str, str], since: float) -> list[str]:
    """Logs and dumps that the user has sent to places of their own, written since then (seconds since 1970)."""
    found = []
    for name in ("NCCL_DEBUG_FILE", *_DUMP_PREFIXES):
        value = environ.get(name, "")
        if not value or value.startswith(("/dev/", "/proc/")):
            continue
        pattern = re.sub("%[hp]", "*", value) if name == "NCCL_DEBUG_FILE" else f"{value}*"
        folder, name_pattern = Path(pattern).parent, Path(pattern).name
        try:
            files = sorted(folder.glob(name_pattern))
            found += [
                str(f) for f in files if f.is_file() and f.stat().st_mtime >= since - _CLOCK_GRAIN
            ]
        except (OSError, ValueError, IndexError):
            continue
    return sorted(set(found))
