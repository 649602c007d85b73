"""Faults under `nccldoctor run`: exit code, verdict, time from fault to verdict; and what watching costs a healthy loop.

    python benchmarks/gpu_run.py OUT_FOLDER [--modes sleep,kill] [--pairs 6] [--skip-overhead]

Prints Markdown tables and leaves `gpu_run.md`, `gpu_run.json` and the run folders in OUT_FOLDER.
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
    "recv_without_send": (124, ("COLL04", "HANG01", "HANG02")),
    "late_init": (124, ("INIT01",)),
    "graph_replays": (124, ("COLL05", "HANG01", "HANG02")),
    "graph_destroy": (124, ("HANG06", "COLL05")),
    "kill": (137, ("CRASH01",)),
    "segv": (139, ("CRASH01", "CRASH03")),
    "exit": (7, ("CRASH01",)),
    "raise": (1, ("CRASH01",)),
}


def run_mode(mode: str, out: Path, extra: list[str]) -> dict[str, Any]:
    """One job under `nccldoctor run`, with the moments at which its lines came."""
    folder = out / mode
    fault_file = out / f"{mode}.fault"
    fault_file.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    environ = {**os.environ, "FAULT_TIME_FILE": str(fault_file)}
    words = [sys.executable, "-m", "nccldoctor", "run", "--nproc", "2", "--run-dir", str(folder)]
    began = time.time()
    job = subprocess.Popen(
        [*words, *extra, str(WORKER), mode],
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
        code = job.wait(400)
    except subprocess.TimeoutExpired:
        job.kill()
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
        "left": left_over(),
    }


def left_over() -> int:
    """Processes of the job that are still there."""
    time.sleep(0.5)
    found = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                found += str(WORKER).encode() in (folder / "cmdline").read_bytes()
            except OSError:
                continue
    return found


def step_time(watched: bool, out: Path, number: int, steps: int, nproc: str) -> float:
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
        timeout=300,
    )
    return float(file.read_text().split()[0])


def overhead(out: Path, pairs: int, steps: int, nproc: str) -> dict[str, Any]:
    """Pairs of a plain and a watched run, in alternating order; the median of the pairs' ratios."""
    rows = []
    for number in range(pairs):
        order = (False, True) if number % 2 == 0 else (True, False)
        times = {watched: step_time(watched, out, number, steps, nproc) for watched in order}
        rows.append({"plain_ms": times[False], "watched_ms": times[True]})
        print(
            f"pair {number}: plain {times[False]:.3f} ms, watched {times[True]:.3f} ms", flush=True
        )
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
        "| fault | exit | verdict | ranks | fault to detection | evidence | fault to report | right |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        seconds = [
            f"{row[key]:.1f} s" if row[key] is not None else "–"
            for key in ("fault_to_detected", "evidence_seconds", "fault_to_report")
        ]
        told = row["code"] or row["status"]
        lines.append(
            f"| {row['mode']} | {row['exit']} | {told} | {row['ranks']} | {seconds[0]} "
            f"| {seconds[1]} | {seconds[2]} | {'yes' if right(row) else 'NO'} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--modes", default=",".join(EXPECTED))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--nproc", default="2", help="Ranks of the healthy loop.")
    parser.add_argument("--skip-overhead", action="store_true")
    parser.add_argument("--options", default="", help="Further options of nccldoctor run.")
    chosen = parser.parse_args()
    out = chosen.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"modes": []}
    text = ""
    for mode in filter(None, chosen.modes.split(",")):
        extra = chosen.options.split()
        if mode == "late_init":
            extra += ["--init-timeout", "45"]
        row = run_mode(mode, out, extra)
        result["modes"].append(row)
        print(json.dumps(row), flush=True)
    if result["modes"]:
        text = table(result["modes"]) + "\n"
    if not chosen.skip_overhead:
        result["overhead"] = overhead(out, chosen.pairs, chosen.steps, chosen.nproc)
        cost = result["overhead"]
        text += (
            f"\nHealthy loop, {len(cost['pairs'])} pairs: {cost['median_percent']:+.2f} % in the median "
            f"({cost['best_percent']:+.2f} to {cost['worst_percent']:+.2f} %).\n"
        )
    (out / "gpu_run.json").write_text(json.dumps(result, indent=1))
    (out / "gpu_run.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
