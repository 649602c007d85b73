"""Runs small jobs that go wrong on purpose, each under `nccldoctor run`, and compares the verdict with the truth."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nccldoctor.collect import launch

LONGEST_SECONDS = 300
_WORKER = Path(__file__).with_name("worker.py")
_LIMITS = ("--watch-every", "0.5", "--hang-timeout", "5", "--symmetric-timeout", "7", "--grace", "4")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """What the last rank does, and the codes that may head the report. `pair`: any two ranks may be named with it."""

    mode: str
    what: str
    codes: tuple[str, ...]
    pair: bool = False
    nccl_only: bool = False


FAULTS = (
    Fault("healthy", "nothing", ()),
    Fault("sleep", "sleeps instead of calling", ("HANG01",)),
    Fault("stop", "is stopped (SIGSTOP)", ("HANG01",)),
    Fault("late", "never comes to the set-up", ("INIT01",)),
    Fault("wrong-op", "calls another collective", ("COLL01",), pair=True),
    Fault("wrong-size", "calls with another size", ("COLL02",), pair=True, nccl_only=True),
    Fault("group-order", "uses two groups the other way round", ("COLL03",), pair=True),
    Fault("raise", "raises an exception", ("CRASH01",)),
    Fault("exit", "exits with code 7", ("CRASH01",)),
    Fault("kill", "is killed (SIGKILL)", ("CRASH01",)),
    Fault("segv", "crashes (SIGSEGV)", ("CRASH01", "CRASH03")),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on one fault; `seconds` from the fault to the written report, None without either."""

    fault: Fault
    right: bool
    code: str
    ranks: tuple[int, ...]
    headline: str
    seconds: float | None


def device_here(environ: Mapping[str, str]) -> tuple[str, int]:
    """(`cuda`, ranks) where at least two GPUs can be used, else (`cpu`, 2)."""
    count = launch.processes_here(environ)[0] if launch.gpus() else 0
    return ("cuda", count) if count > 1 else ("cpu", 2)


def chosen(names: Sequence[str], device: str) -> list[Fault]:
    """The faults with these names, or all that this device can show."""
    return [
        f for f in FAULTS if (f.mode in names if names else device == "cuda" or not f.nccl_only)
    ]


def inject(fault: Fault, folder: Path, device: str, ranks: int) -> Outcome:
    """Runs the job with this fault into `folder`, and judges its report."""
    moment = folder.with_name(f"{folder.name}.fault")
    init = ("--init-timeout", "30" if device == "cuda" else "6")
    command = [sys.executable, "-m", "nccldoctor", "run", "--run-dir", str(folder), "--nproc", str(ranks), *_LIMITS, *init]  # fmt: skip
    command += [str(_WORKER), fault.mode, device, str(moment)]
    kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    try:
        subprocess.run(
            command,
            env={**kept, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(fault, False, "none", (), f"no end after {LONGEST_SECONDS} s", None)
    report = folder / "report.json"
    try:
        verdict = json.loads(report.read_text())["verdict"]
    except (OSError, ValueError, KeyError):
        return Outcome(fault, False, "none", (), f"no report; see {folder}", None)
    try:
        seconds = report.stat().st_mtime - float(moment.read_text())
    except (OSError, ValueError):
        seconds = None
    code, named = verdict["code"], tuple(verdict["ranks"])
    return Outcome(
        fault,
        _is_right(fault, verdict["status"], code, named, ranks),
        code or verdict["status"],
        named,
        verdict["headline"],
        seconds,
    )


def _is_right(
    fault: Fault, status: str, code: str | None, named: tuple[int, ...], ranks: int
) -> bool:
    if not fault.codes:
        return status == "healthy"
    culprit = ranks - 1
    if code not in fault.codes:
        return False
    return culprit in named and (len(named) == 1 or (fault.pair and len(named) == 2))
