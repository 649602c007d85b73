"""Where every rank stands: py-spy where ptrace is allowed, else faulthandler by signal, else what the rank itself told."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nccldoctor.collect import procfs
from nccldoctor.collect.intake import RankState

_FRAME = re.compile(r'^  File "([^"]*)", line (\d+) in (.*)$')


def of_ranks(ranks: Sequence[RankState], folder: Path, seconds: float) -> list[dict[str, Any]]:
    """One stack per rank, the main thread's, innermost frame first, and how it was got; other threads beside it."""
    if not ranks:
        return []
    with ThreadPoolExecutor(min(8, len(ranks))) as pool:
        return list(pool.map(lambda state: _of_rank(state, folder, seconds), ranks))


def of_process(pid: int, seconds: float, *, gently: bool = False) -> list[dict[str, Any]] | None:
    """All Python threads of a process as py-spy sees them, None where it cannot; `gently` never pauses it."""
    tool = py_spy()
    reading = procfs.read(pid)
    if tool is None or reading is None:
        return None
    # A stopped process does not answer to ptrace; its memory can be read all the same.
    gentle = ["--nonblocking"] if gently or reading.state in "TtD" else []
    for flags in (gentle, ["--nonblocking"]):
        try:
            done = subprocess.run(
                [tool, "dump", "--json", *flags, "--pid", str(pid)],
                capture_output=True,
                timeout=seconds,
                check=False,
            )
            if done.returncode == 0:
                threads: list[dict[str, Any]] = json.loads(done.stdout)
                return threads
        except (OSError, subprocess.TimeoutExpired, ValueError):
            continue
    return None


def py_spy() -> str | None:
    """py-spy's executable: beside our Python, or on the PATH."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")


def _of_rank(state: RankState, folder: Path, seconds: float) -> dict[str, Any]:
    entry: dict[str, Any] = {"rank": state.rank, "pid": state.pid, "frames": [], "origin": "none"}
    threads = of_process(state.pid, seconds)
    if threads:
        main = next((t for t in threads if t.get("thread_name") == "MainThread"), threads[0])
        entry.update(origin="py-spy", thread=main.get("thread_name"), frames=_short(main))
        others = [t for t in threads if t is not main and t.get("thread_name") != "nccldoctor"]
        entry["others"] = [{"thread": t.get("thread_name"), "frames": _short(t)} for t in others]
        return entry
    frames = _by_signal(state, folder)
    if frames:
        entry.update(origin="faulthandler", thread="MainThread", frames=frames)
    return entry


def _short(thread: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{key: f.get(key) for key in ("name", "filename", "line")} for f in thread["frames"]]


def _by_signal(state: RankState, folder: Path) -> list[dict[str, Any]]:
    """The last thread that faulthandler writes is the main one; it answers even where Python's lock is held."""
    file = folder / f"stack_rank_{state.rank}.faulthandler.txt"
    if not state.status.get("signal") or not file.is_file():
        return []
    before = file.stat().st_size
    procfs.send(signal.SIGUSR2, [state.pid])
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline and file.stat().st_size == before:
        time.sleep(0.05)
    time.sleep(0.1)
    text = file.read_bytes()[before:].decode("utf-8", "replace")
    return main_frames(text)


def main_frames(text: str) -> list[dict[str, Any]]:
    """The frames of the main thread in faulthandler's text: it is written last."""
    blocks: list[list[dict[str, Any]]] = [[]]
    for line in text.splitlines():
        match = _FRAME.match(line)
        if match:
            blocks[-1].append({"name": match[3], "filename": match[1], "line": int(match[2])})
        elif blocks[-1]:
            blocks.append([])
    return next((block for block in reversed(blocks) if block), [])
