"""Faults under `nccldoctor run`: exit code, verdict, time from fault to verdict; and what watching costs a healthy loop.

    python benchmarks/gpu_run.py OUT_FOLDER [--jobs 3] [--modes sleep,kill] [--pairs 5] [--skip-overhead]

Several faults may run at a time on the same GPUs (`--jobs`); the pairs of the healthy loop always have them to themselves.
Nothing new is begun after `--budget` seconds. Prints Markdown tables and leaves `gpu_run.md`, `gpu_run.json` and the
run folders in OUT_FOLDER, the two files anew after each run.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("faulty_worker.py")
# mode: (exit code, codes that may head the report, None for a healthy run)
EXPECTED: dict[str, tuple[int, tuple[str, ...] | None]] = {
    "healthy": (0, None),
    "checkpoint": (0, None),
    "sleep": (124, ("HANG01",)),
    "stop": (124, ("HANG01",)),
    "wrong_op": (124, ("COLL01",)),
    "wrong_size": (124, ("COLL02",)),
    "group_order": (124, ("COLL03",)),
    "recv_without_send": (124, ("COLL04", "HANG01", "HANG02", "INIT01")),
    "late_init": (124, ("INIT01",)),
    "graph_replays": (124, ("COLL05", "HANG01", "HANG02")),
    "graph_destroy": (124, ("HANG06", "COLL05")),
    "kill": (137, ("CRASH01",)),
    "segv": (139, ("CRASH01", "CRASH03")),
    "exit": (7, ("CRASH01",)),
    "raise": (1, ("CRASH01",)),
    "fallback": (0, ("HW08",)),
}
WORKER_MODE = {"fallback": "needs_lever"}
EXTRA = {
    "late_init": ("--init-timeout", "45"),
    "fallback": ("--fallback", "job"),
}
# The longest first, so that those that run beside each other end together.
ORDER = ("wrong_size", "graph_replays", "graph_destroy", "checkpoint", "stop", "recv_without_send")


def run_mode(mode: str, out: Path, extra: list[str], limit: float) -> dict[str, Any]:
    """One job under `nccldoctor run`, with the moments at which its lines came; ended after `limit` seconds."""
    folder = out / mode
    fault_file = out / f"{mode}.fault"
    fault_file.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    environ = {**os.environ, "FAULT_TIME_FILE": str(fault_file)}
    words = [sys.executable, "-m", "nccldoctor", "run", "--nproc", "2", "--run-dir", str(folder)]
    began = time.time()
    job = subprocess.Popen(
        [*words, *extra, *EXTRA.get(mode, ()), str(WORKER), WORKER_MODE.get(mode, mode)],
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    moments: list[tuple[float, str]] = []

    def listen() -> None:
        assert job.stderr is not None
        for line in job.stderr:
            moments.append((time.time(), line.rstrip()))

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        code = job.wait(limit)
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()
        code = None
    listener.join(10)
    ended = time.time()
    (out / f"{mode}.log").write_text("".join(f"{t - began:8.2f} {text}\n" for t, text in moments))
    fault = float(fault_file.read_text()) if fault_file.exists() else None
    seen = next((t for t, text in moments if "taking evidence" in text), None)
    try:
        report = json.loads((folder / "report.json").read_text())
    except (OSError, ValueError):
        report = {"verdict": {}, "findings": []}
    try:
        evidence = json.loads((folder / "evidence.json").read_text())
    except (OSError, ValueError):
        evidence = {}
    verdict = report["verdict"]
    return {
        "mode": mode,
        "exit": code,
        "status": verdict.get("status"),
        "code": verdict.get("code"),
        "ranks": verdict.get("ranks"),
        "headline": verdict.get("headline"),
        "loud": [f["code"] for f in report["findings"] if f["severity"] != "note"],
        "fault_to_detected": seen - fault if fault and seen else None,
        "evidence_seconds": evidence.get("took_seconds"),
        "fault_to_report": ended - fault if fault else None,
        "whole": ended - began,
        "stacks": [s.get("origin") for s in evidence.get("stacks", [])],
        "dumps": evidence.get("dumps"),
        "ras": evidence.get("ras"),
        "gpus": [
            f"{g['utilization_percent']} % {g['power_watts']:.0f} W {g.get('state') or 'unclear'}"
            for g in evidence.get("gpu_activity") or []
        ],
        "sentence": evidence.get("why"),
        "unanswered": evidence.get("unanswered"),
        "fell_back": [text for _, text in moments if "goes through with" in text],
        "left": left_over(folder),
    }


def left_over(run_folder: Path) -> int:
    """Processes of this job that are still there."""
    time.sleep(0.5)
    mark = f"NCCLDOCTOR_FOLDER={run_folder}".encode()
    found = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                found += mark in (folder / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
    return found


def step_time(watched: bool, out: Path, number: int, steps: int, nproc: str, limit: float) -> float:
    """Median step in milliseconds of one healthy run."""
    file = out / f"step-{number}-{watched}"
    environ = {**os.environ, "STEP_TIME_FILE": str(file)}
    arguments = [str(WORKER), "timed", "--steps", str(steps)]
    if watched:
        folder = str(out / f"overhead-{number}")
        shutil.rmtree(folder, ignore_errors=True)
        head = ["-m", "nccldoctor", "run", "--nproc", nproc, "--run-dir", folder]
    else:
        head = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", nproc]
    subprocess.run(
        [sys.executable, *head, *arguments],
        env=environ,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=limit,
    )
    return float(file.read_text().split()[0])


def pair(out: Path, number: int, steps: int, nproc: str, limit: float) -> dict[str, float]:
    """One plain and one watched run, in alternating order."""
    order = (False, True) if number % 2 == 0 else (True, False)
    times = {watched: step_time(watched, out, number, steps, nproc, limit) for watched in order}
    print(f"pair {number}: plain {times[False]:.3f} ms, watched {times[True]:.3f} ms", flush=True)
    return {"plain_ms": times[False], "watched_ms": times[True]}


def cost_of(rows: list[dict[str, float]]) -> dict[str, Any]:
    """The median of the pairs' ratios, and how far they lie apart."""
    ratios = [row["watched_ms"] / row["plain_ms"] for row in rows]
    return {
        "pairs": rows,
        "median_percent": 100 * (statistics.median(ratios) - 1),
        "best_percent": 100 * (min(ratios) - 1),
        "worst_percent": 100 * (max(ratios) - 1),
    }


def right(row: dict[str, Any]) -> bool:
    exit_code, codes = EXPECTED[row["mode"]]
    told = row["code"] in codes if codes is not None else not row["loud"]
    return row["exit"] == exit_code and told and not row["left"]


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| fault | exit | verdict | ranks | fault to detection | evidence | fault to report | GPUs | right |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        seconds = [
            f"{row[key]:.1f} s" if row[key] is not None else "–"
            for key in ("fault_to_detected", "evidence_seconds", "fault_to_report")
        ]
        told = row["code"] or row["status"]
        lines.append(
            f"| {row['mode']} | {row['exit']} | {told} | {row['ranks']} | {seconds[0]} "
            f"| {seconds[1]} | {seconds[2]} | {'; '.join(row['gpus']) or '–'} "
            f"| {'yes' if right(row) else 'NO'} |"
        )
    return "\n".join(lines)


def pairs_table(cost: dict[str, Any]) -> str:
    lines = ["| pair | plain, ms | watched, ms | difference |", "|---|---|---|---|"]
    for number, row in enumerate(cost["pairs"], 1):
        plain, watched = row["plain_ms"], row["watched_ms"]
        difference = 100 * (watched / plain - 1)
        lines.append(f"| {number} | {plain:.3f} | {watched:.3f} | {difference:+.2f} % |")
    return "\n".join(lines) + (
        f"\n\nHealthy loop, {len(cost['pairs'])} pairs: {cost['median_percent']:+.2f} % in the median "
        f"({cost['best_percent']:+.2f} to {cost['worst_percent']:+.2f} %).\n"
    )


def write(out: Path, result: dict[str, Any]) -> str:
    """Leaves what is there by now in both files; the Markdown."""
    order = list(EXPECTED)
    result["modes"].sort(key=lambda row: order.index(row["mode"]))
    text = table(result["modes"]) + "\n" if result["modes"] else ""
    if result["not_run"]:
        text += f"\nNot run, for want of time: {', '.join(sorted(set(result['not_run'])))}.\n"
    if result["overhead"]:
        text += "\n" + pairs_table(result["overhead"])
    (out / "gpu_run.json").write_text(json.dumps(result, indent=1))
    (out / "gpu_run.md").write_text(text)
    return text


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--modes", default=",".join(EXPECTED))
    parser.add_argument("--jobs", type=int, default=1, help="Faults at a time, on the same GPUs.")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--nproc", default="2", help="Ranks of the healthy loop.")
    parser.add_argument("--skip-overhead", action="store_true")
    parser.add_argument("--limit", type=float, default=240.0, help="Seconds for one run at most.")
    parser.add_argument("--budget", type=float, default=520.0, help="Nothing begins after so many seconds.")  # fmt: skip
    parser.add_argument("--options", default="", help="Further options of nccldoctor run.")
    chosen = parser.parse_args()
    out = chosen.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + chosen.budget
    result: dict[str, Any] = {"modes": [], "not_run": [], "overhead": None}
    modes = sorted(
        filter(None, chosen.modes.split(",")),
        key=lambda m: ORDER.index(m) if m in ORDER else len(ORDER),
    )

    def one(mode: str) -> dict[str, Any] | None:
        left = ends - time.monotonic()
        return (
            run_mode(mode, out, chosen.options.split(), min(chosen.limit, left))
            if left > 20
            else None
        )

    with ThreadPoolExecutor(max(chosen.jobs, 1)) as pool:
        tasks = {pool.submit(one, mode): mode for mode in modes}
        for task in as_completed(tasks):
            row = task.result()
            if row is None:
                result["not_run"].append(tasks[task])
            else:
                result["modes"].append(row)
                print(json.dumps(row), flush=True)
            write(out, result)
    rows: list[dict[str, float]] = []
    for number in range(0 if chosen.skip_overhead else chosen.pairs):
        left = ends - time.monotonic()
        if left < 60:
            result["not_run"].append(f"pairs from {number + 1} on")
            break
        try:
            rows.append(pair(out, number, chosen.steps, chosen.nproc, min(chosen.limit, left / 2)))
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            result["not_run"].append(f"pair {number + 1} ({type(error).__name__})")
            continue
        result["overhead"] = cost_of(rows)
        write(out, result)
    print(write(out, result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
