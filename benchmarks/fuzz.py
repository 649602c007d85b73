"""Feeds damaged evidence to the parser for a while: every kind of input, cut, glued, flipped, repeated.

    python benchmarks/fuzz.py [--seconds 300] [--seed 1] [FOLDER …]

The seeds are the files of sample_logs, or of the folders given. An exception ends it with the input that caused it kept.
"""

import argparse
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from nccldoctor.evidence.discover import discover
from nccldoctor.parse import digest_input

ROOT = Path(__file__).parents[1]
LONGEST = 60_000


def damaged(choose: random.Random, seeds: list[bytes]) -> bytes:
    """One seed, or a piece of it, after a few damages."""
    data = choose.choice(seeds)
    start = choose.randrange(max(1, len(data) - 100)) if choose.random() < 0.5 else 0
    data = data[start : start + choose.randrange(1, LONGEST)]
    for _ in range(choose.randrange(1, 6)):
        at = choose.randrange(len(data) + 1)
        to = min(len(data), at + choose.randrange(1, 400))
        kind = choose.randrange(7)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data = data[:at] + data[to:]
        elif kind == 2:
            data = data[:at] + choose.randbytes(choose.randrange(1, 40)) + data[at:]
        elif kind == 3:
            other = choose.choice(seeds)
            begin = choose.randrange(len(other) + 1)
            data = data[:at] + other[begin : begin + choose.randrange(1, 2000)] + data[at:]
        elif kind == 4:
            data = data[:at] + data[at:to] * choose.randrange(2, 50) + data[to:]
        elif kind == 5:
            data = data[:at] + data[at:].replace(b"\n", b"", choose.randrange(1, 4))
        elif at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << choose.randrange(8))]) + data[at + 1 :]
        data = data[:LONGEST] or b"\n"
    return data


def main() -> None:
    """Reads the command line and fuzzes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[ROOT / "sample_logs"])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    files = sorted(p for folder in options.folders for p in folder.rglob("*") if p.is_file())
    seeds = [data for data in (file.read_bytes() for file in files) if data]
    choose = random.Random(options.seed)
    kinds: Counter[str] = Counter()
    slowest = 0.0
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input"
        while time.monotonic() < end:
            data = damaged(choose, seeds)
            path.write_bytes(data)
            begin = time.process_time()
            try:
                for item in discover([str(path)]):
                    kinds.update(digest.source.kind.value for digest in digest_input(item))
            except Exception:
                kept = Path(f"fuzz-{options.seed}-{sum(kinds.values())}")
                kept.write_bytes(data)
                print(f"kept {kept}")
                raise
            slowest = max(slowest, time.process_time() - begin)
    print(f"{sum(kinds.values())} inputs, no exception; slowest {slowest:.2f} s: {dict(kinds)}")


if __name__ == "__main__":
    main()
