"""Processes as Linux shows them under /proc: who descends from whom, who belongs to a run, and who is busy."""

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a process: `state` is the kernel's letter (R, S, D, T, Z), times in seconds since its start."""

    parent: int
    state: str
    cpu_seconds: float
    children_cpu_seconds: float
    session: int


def read(pid: int) -> Reading | None:
    """The process now, or None when it is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text[text.rfind(")") + 2 :].split()
    cpu, children = (int(fields[11]) + int(fields[12])), (int(fields[13]) + int(fields[14]))
    return Reading(int(fields[1]), fields[0], cpu / _TICKS, children / _TICKS, int(fields[3]))


def written_bytes(pid: int) -> int | None:
    """Bytes that the process has read and written so far, None where /proc does not tell."""
    try:
        lines = (_PROC / str(pid) / "io").read_text().splitlines()
    except OSError:
        return None
    found = dict(line.split(": ", 1) for line in lines)
    return int(found.get("rchar", 0)) + int(found.get("wchar", 0))


def environment(pid: int) -> dict[str, str]:
    """The environment that the process was started with; empty where it may not be read."""
    try:
        data = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in data.split(b"\0") if entry)
    return {k.decode(errors="replace"): v.decode(errors="replace") for k, _, v in pairs}


def command(pid: int) -> list[str]:
    """The command line of the process; empty for a dead one."""
    try:
        data = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return []
    return [word.decode(errors="replace") for word in data.split(b"\0")[:-1]]


def pids() -> list[int]:
    return sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def descendants(root: int) -> list[int]:
    """All processes below `root`, parents before children; zombies left out."""
    children: dict[int, list[int]] = {}
    states = {}
    for pid in pids():
        reading = read(pid)
        if reading is not None:
            children.setdefault(reading.parent, []).append(pid)
            states[pid] = reading.state
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(0), [])
        queue += below
        found += [pid for pid in below if states[pid] != "Z"]
    return found


def marked(name: str, value: str) -> list[int]:
    """All processes whose environment says `name`=`value`, this one left out."""
    wanted = f"{name}={value}".encode()
    found = []
    for pid in pids():
        if pid == os.getpid():
            continue
        try:
            data = (_PROC / str(pid) / "environ").read_bytes()
        except OSError:
            continue
        if wanted in data.split(b"\0"):
            found.append(pid)
    return found


def send(signal_number: int, pids: Iterable[int]) -> None:
    """Signals each process that is still there."""
    for pid in pids:
        try:
            os.kill(pid, signal_number)
        except (ProcessLookupError, PermissionError):
            continue


def end(name: str, value: str, roots: Iterable[int] = (), *, seconds: float = 10.0) -> list[int]:
    """Kills all that is marked or below `roots`, again and again until nothing is left; what is left after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        left = {pid for pid in marked(name, value) if _alive(pid)}
        for root in roots:
            left |= {pid for pid in (root, *descendants(root)) if _alive(pid)}
        left.discard(os.getpid())
        if not left or time.monotonic() > deadline:
            return sorted(left)
        send(signal.SIGKILL, sorted(left))
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    reading = read(pid)
    return reading is not None and reading.state not in "ZX"
