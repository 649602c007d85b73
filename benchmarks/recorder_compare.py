"""Times nccldoctor beside PyTorch's own `fr_trace` on the same flight-recorder dumps, in the same run.

`python benchmarks/recorder_compare.py --ranks 256`: writes dumps into a temporary folder, runs both, prints seconds,
peak memory and the culprit that each names. Needs torch 2.10 or later for fr_trace; `--alone` leaves it out.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from recorder_dumps import write


def run(command: list[str], options: list[str]) -> tuple[float, float, float, str]:
    """(seconds by the clock, seconds of CPU with all its processes, MB of the process itself, output)."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([*command, *options], stdout=output, stderr=subprocess.STDOUT)
        _, _, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        output.seek(0)
        cpu = usage.ru_utime + usage.ru_stime
        return seconds, cpu, usage.ru_maxrss / 1024, output.read().decode("utf-8", "replace")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--alone", action="store_true")
    given = parser.parse_args()
    culprit = given.ranks * 3 // 4
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "dumps"
        size = write(folder, given.ranks, given.entries, culprit)
        print(
            f"{given.ranks} ranks x {given.entries} entries, {size / 1e6:.0f} MB; culprit {culprit}"
        )
        report = Path(scratch) / "report.json"
        ours, our_cpu, memory, _ = run(
            [sys.executable, "-m", "nccldoctor", "parse", str(folder), "--no-html", "--quiet"],
            ["--json", str(report), "--jobs", str(given.jobs), "--fail-on", "never"],
        )
        found = json.loads(report.read_text())["verdict"]
        print(
            f"nccldoctor: {ours:.1f} s, CPU {our_cpu:.1f} s, {memory:.0f} MB, {found['code']} ranks {found['ranks']}"
        )
        if given.alone:
            return
        theirs, their_cpu, memory, output = run(
            [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", str(folder)],
            ["-p", "nccl_trace_rank_"],
        )
        named = sorted(
            set(re.findall(r"(?:missing ranks: \{|Culprit rank )(\d+)", output)), key=int
        )
        print(
            f"fr_trace:   {theirs:.1f} s, CPU {their_cpu:.1f} s, {memory:.0f} MB, names {len(named)} ranks: "
            f"{', '.join(named[:4])}"
        )
        print(
            f"fr_trace took {theirs / ours:.1f} times as long, {their_cpu / our_cpu:.1f} times the CPU"
        )


if __name__ == "__main__":
    main()
