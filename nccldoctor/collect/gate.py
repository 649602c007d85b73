"""The evidence gate: all that can be learnt of a sick job before anything of it is killed, within half a minute."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nccldoctor.collect import bundle, gpu_activity, hostfacts, nvml, procfs, ras, stacks
from nccldoctor.collect.intake import Intake, RankState

_RAS_APART = 4.0
_WHOLE_SECONDS = 27.0
"""Of the thirty in which the evidence is to be there."""


_STOPPED_SECONDS = 2.0
"""Whoever takes stacks beside us stops a rank for a moment; one that is stopped for longer answers no more."""


def take(
    folder: Path,
    ranks: list[RankState],
    why: str,
    *,
    intake: Intake | None,
    ras_address: str | None,
    suffix: str = "",
) -> dict[str, Any]:
    """Leaves stacks, recorder dumps, RAS answers, environments and host state in `folder`; what came of each.

    Without `intake` (a job that nccldoctor did not start) nothing is asked of the ranks themselves. Every part has its own limit in seconds and fails alone; the whole takes at most thirty.
    """
    began = time.monotonic()
    parts: dict[str, Callable[[], Any]] = {
        "stacks": lambda: stacks.of_ranks(ranks, folder, 8.0),
        "ras": lambda: ras_answers(folder, ras_address, suffix),
        "gpu_activity": lambda: [a.to_dict() for a in gpu_activity.activity()],
        "nvml": nvml.host_state,
        "xids": hostfacts.xids,
        "nvidia_smi": lambda: hostfacts.nvidia_smi(folder),
        "environments": lambda: _environments(ranks),
        "host_state": lambda: _host_state(ranks),
    }
    if intake is not None:
        parts["dumps"] = lambda: recorder_dumps(folder, intake, ranks, 12.0)
    found = together(parts, _WHOLE_SECONDS)
    machine = found["nvml"] or {}
    last = {str(s.rank): s.status for s in ranks}
    taken = {
        "why": why,
        "host": hostfacts.host_name(),
        "environments": found["environments"] or [],
        "host_state": found["host_state"] or {},
        "gpu_activity": found["gpu_activity"] or [],
        "gpus": machine.get("gpus") or [],
        "matrix": machine.get("matrix") or {},
        "stacks": found["stacks"] or [],
        "xids": found["xids"] or [],
        "dumps": found.get("dumps") or {},
        "ras": found["ras"] or [],
        "reports": last,
        "unanswered": sorted(
            name for name, result in found.items() if result is None and name != "nvml"
        ),
        "took_seconds": round(time.monotonic() - began, 1),
    }
    trouble = bundle.snapshot(folder, f"evidence{suffix}.json", taken)
    return {**taken, "trouble": trouble}


def together(parts: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, Any]:
    """All parts at once; None for one that fails or has no answer in time: a driver or a disk may never give one."""
    found: dict[str, Any] = dict.fromkeys(parts)

    def do(name: str) -> None:
        with contextlib.suppress(Exception):  # one part's failure must not cost the others
            found[name] = parts[name]()

    deadline = time.monotonic() + seconds
    threads = [threading.Thread(target=do, args=(name,), name=name, daemon=True) for name in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)


def _environments(ranks: list[RankState]) -> list[dict[str, Any]]:
    return [{"rank": s.rank, "pid": s.pid, "variables": hostfacts.variables(s.pid)} for s in ranks]


def _host_state(ranks: list[RankState]) -> dict[str, Any]:
    return {
        "shared_memory": hostfacts.shared_memory(),
        "processes": hostfacts.processes(s.pid for s in ranks),
        "kernel_log_readable": hostfacts.kernel_log_readable(),
    }


def recorder_dumps(
    folder: Path, intake: Intake, ranks: list[RankState], seconds: float
) -> dict[str, str]:
    """Asks every rank for its flight recorder, over its own thread and over PyTorch's pipe; {rank: what came}."""
    intake.answers.clear()
    moving = dict.fromkeys(intake.ask_all({"do": "dump"}), time.monotonic())
    _poke_pipes(folder)
    deadline = time.monotonic() + seconds
    while (now := time.monotonic()) < deadline:
        waited = set(moving) - set(intake.answers)
        moving |= {pid: now for pid in waited if not _stopped(pid)}
        if all(now - moving[pid] > _STOPPED_SECONDS for pid in waited):
            break
        time.sleep(0.1)
    found = {}
    for state in ranks:
        answer = intake.answers.get(state.pid)
        file = folder / f"fr_rank_{state.rank}"
        if file.is_file() and file.stat().st_size:
            found[str(state.rank)] = file.name
        elif answer is not None:
            found[str(state.rank)] = str(answer.get("because", "nothing"))
        else:
            found[str(state.rank)] = "no answer: stopped, or stuck outside Python"
    return found


def _stopped(pid: int) -> bool:
    """A process under SIGSTOP or in uninterruptible sleep cannot answer."""
    reading = procfs.read(pid)
    return reading is None or reading.state in "TtDZX"


def _poke_pipes(folder: Path) -> None:
    """Any byte makes PyTorch's monitor thread write its dump (NCCL only); nobody listening is no error."""
    for pipe in sorted(folder.glob("fr_pipe_*.pipe")):
        with contextlib.suppress(OSError):
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(descriptor, b"1\n")
            finally:
                os.close(descriptor)


def ras_answers(folder: Path, address: str | None, suffix: str) -> list[str]:
    """Two answers some seconds apart, since only a state that stays is a hang, and diagnostics since NCCL 2.31."""
    if address is None:
        return []
    first = ras.ask(address, "VERBOSE STATUS")
    if not first:
        return []
    written = _write(folder, f"ras_1{suffix}.txt", first)
    version = ras.version(first)
    as_json = version is not None and version >= (2, 28)
    if as_json:
        written += _write(folder, f"ras_1{suffix}.json", ras.ask(address, "STATUS", form="json"))
    time.sleep(_RAS_APART)
    form = "json" if as_json else "text"
    name = f"ras_2{suffix}.{'json' if as_json else 'txt'}"
    written += _write(folder, name, ras.ask(address, "VERBOSE STATUS", form=form))
    if version is not None and version >= (2, 31):
        written += _write(
            folder, f"ras_diagnostics{suffix}.txt", ras.ask(address, "DIAGNOSTICS", seconds=8)
        )
    return written


def _write(folder: Path, name: str, text: str | None) -> list[str]:
    if not text:
        return []
    try:
        (folder / name).write_text(text)
    except OSError:
        return []
    return [name]
