"""Measures `nccldoctor parse` against `grep -c opCount` on the same files, and prints a Markdown table.

    python benchmarks/parse.py [--rounds 7] [--megabytes 600] [--work FOLDER]

Every round runs grep and then nccldoctor; the table has the median over rounds of the ratio within a round, once of
seconds on the clock and once of processor seconds. The latter also mean something on a machine that others use.
"""

import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

GENERATE = Path(__file__).with_name("generate.py")
BYTES_A_CALL = 197
GREP = ["grep", "-c", "opCount"]


@dataclass(frozen=True)
class Cost:
    """What one command took."""

    seconds: float
    processor_seconds: float
    peak_megabytes: float


def cost(command: list[str]) -> Cost:
    """Runs a command to its end; output goes through a pipe, because grep stops early when it goes nowhere."""
    import time

    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode > (command[0] == "grep"):  # which ends with 1 when nothing matches
        raise SystemExit(f"{command} ended with {process.returncode}")
    return Cost(
        time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    )


def parse(files: list[Path], jobs: int = 1) -> list[str]:
    """The whole command: from files to JSON."""
    options = ["--no-html", "--quiet", "--fail-on", "never", "--jobs", str(jobs), "--json", "-"]
    return [sys.executable, "-m", "nccldoctor", "parse", *map(str, files), *options]


def generate(folder: Path, *options: str) -> list[Path]:
    """Files of one kind; made once."""
    if not folder.exists():
        subprocess.run([sys.executable, str(GENERATE), str(folder), *options], check=True)
    return sorted(folder.iterdir())


def compared(
    rounds: int, first: list[str], second: list[str], files: list[Path]
) -> tuple[str, str, str, str]:
    """Median speeds of the second command, and how many times faster the first is, inverted: 1 is as fast."""
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    pairs = [(cost(first), cost(second)) for _ in range(rounds)]
    clock = statistics.median(a.seconds / b.seconds for a, b in pairs)
    processor = statistics.median(a.processor_seconds / b.processor_seconds for a, b in pairs)
    speed = statistics.median(megabytes / b.seconds for _, b in pairs)
    own = statistics.median(megabytes / b.processor_seconds for _, b in pairs)
    return f"{speed:.0f}", f"{own:.0f}", f"{clock:.3f}", f"{processor:.3f}"


def against_grep(rounds: int, files: list[Path]) -> tuple[str, ...]:
    return compared(rounds, [*GREP, *map(str, files)], parse(files), files)


def packed(files: list[Path], folder: Path) -> list[Path]:
    """The files once more, in gzip."""
    folder.mkdir(exist_ok=True)
    copies = [folder / f"{file.name}.gz" for file in files]
    for file, copy in zip(files, copies, strict=True):
        if not copy.exists():
            with file.open("rb") as source, gzip.open(copy, "wb", 6) as target:
                shutil.copyfileobj(source, target, 1 << 20)
    return copies


def speeds(work: Path, rounds: int, megabytes: int) -> None:
    """The table of speeds."""
    calls = str(megabytes * 1_000_000 // BYTES_A_CALL // 4)
    one_host = ("--hosts", "1", "--ranks", "4", "--calls", calls)
    files = generate(work / "files", *one_host)
    stamped = generate(work / "stamped", *one_host, "--stamps")
    mixed = ("--layout", "stream", "--hosts", "4", "--ranks", "8")
    stream = generate(work / "stream", *mixed, "--calls", str(int(calls) // 8))
    debug = generate(work / "all", "--layout", "subsystems", "--megabytes", str(megabytes // 4))
    zipped = packed(files[:1], work / "gz")
    print("| what | MB/s | MB/s of processor time | ratio | ratio of processor time |")
    print("|---|---|---|---|---|")
    rows: list[tuple[str, Callable[[], tuple[str, ...]]]] = [
        ("a file a rank ÷ grep", lambda: against_grep(rounds, files)),
        ("a time on every line ÷ grep", lambda: against_grep(rounds, stamped)),
        ("32 ranks in one stream ÷ grep", lambda: against_grep(rounds, stream)),
        (
            "2 processes ÷ one",
            lambda: compared(rounds, parse(files, 1), parse(files, 2), files),
        ),
        (
            "gzip ÷ plain",
            lambda: compared(rounds, parse(files[:1]), parse(zipped), files[:1]),
        ),
        ("SUBSYS=ALL text ÷ grep", lambda: against_grep(rounds, debug)),
    ]
    for name, measure in rows:
        print(f"| {name} | {' | '.join(measure())} |", flush=True)


def memory(work: Path) -> None:
    """The peak of one process, for a file and for one ten times as long."""
    print("\n| one file of | peak MB |\n|---|---|")
    for megabytes in (140, 1400):
        calls = str(megabytes * 1_000_000 // BYTES_A_CALL)
        folder = work / f"long{megabytes}"
        files = generate(folder, "--hosts", "1", "--ranks", "1", "--calls", calls)
        size = files[0].stat().st_size / 1e6
        print(f"| {size:.0f} MB | {cost(parse(files)).peak_megabytes:.0f} |", flush=True)
        shutil.rmtree(folder)


def divergence(work: Path, calls: int) -> None:
    """Is the first divergent call among 128 ranks found, also with a lost line and with RCCL's fields?"""
    print("\n| 128 ranks × 3 communicators, calls each | seconds | verdict |\n|---|---|---|")
    faults = {
        "one count differs": ["--wrong", f"77:{calls // 2}"],
        "the same, RCCL": ["--wrong", f"77:{calls // 2}", "--rccl"],
        "the same, with a line lost before": [
            *("--wrong", f"77:{calls // 2}"),
            *("--lose", f"21:{calls // 3}"),
        ],
        "a line lost, nothing else": ["--lose", f"21:{calls // 3}"],
    }
    for name, options in faults.items():
        folder = work / "divergent"
        files = generate(folder, "--hosts", "16", "--ranks", "8", "--calls", str(calls), *options)
        target = work / "report.json"
        command = parse(files, 2)
        command[command.index("-")] = str(target)
        taken = cost(command)
        verdict = json.loads(target.read_text())["verdict"]
        print(f"| {calls}, {name} | {taken.seconds:.1f} | {verdict['headline']} |", flush=True)
        shutil.rmtree(folder)


def main() -> None:
    """Reads the command line and measures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--megabytes", type=int, default=600)
    parser.add_argument("--calls", type=int, default=35_000, help="for the divergence table")
    parser.add_argument(
        "--work", type=Path, help="a folder for the logs; made and removed if left out"
    )
    parser.add_argument("--only", action="append", choices=["speeds", "memory", "divergence"])
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp(prefix="nccldoctor-benchmark-"))
    work.mkdir(parents=True, exist_ok=True)
    try:
        for table in options.only or ("speeds", "memory", "divergence"):
            if table == "speeds":
                speeds(work, options.rounds, options.megabytes)
            elif table == "memory":
                memory(work)
            else:
                divergence(work, options.calls)
    finally:
        if options.work is None:
            shutil.rmtree(work)


if __name__ == "__main__":
    main()
