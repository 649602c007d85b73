"""Counts how often the verdict names the rank at fault, and how often it alarms without one; and times a large job.

python benchmarks/scale.py --faults 500 --healthy 200
python benchmarks/scale.py --large 1024 --megabytes 1000
"""

import argparse
import json
import os
import random
import resource
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import asdict, replace
from pathlib import Path

import generate
from jobs import (
    DIALECTS,
    EXPECTED,
    KINDS,
    WATCHDOG,
    Job,
    Noise,
    Shape,
    Truth,
    hurt,
    make,
    write,
)

from nccldoctor import doctor
from nccldoctor.model.finding import Severity
from nccldoctor.model.report import Report

SIZES = [(2, 4, 1)] * 4 + [(1, 8, 1), (2, 8, 1), (4, 4, 2), (4, 4, 1), (4, 8, 2), (8, 4, 4), (8, 8, 2)]  # fmt: skip
SEVERAL_HOSTS = [size for size in SIZES if size[0] > 1]
EXPECTED_OF_LOGGING = {"ENV05"}
"""Every job here has its calls logged: the advice to switch that off again is right."""


def shape(choose: random.Random, kind: str | None) -> Shape:
    """A job's size, dialect and layout."""
    hosts, per_host, stages = choose.choice(SEVERAL_HOSTS if kind == "ib" else SIZES)
    return Shape(
        hosts,
        per_host,
        stages,
        choose.choice(DIALECTS),
        choose.choice(["files", "files", "stream"]),
        choose.choice([1, 2, 8, 20]),
    )


def noise(choose: random.Random, healthy: bool, copied: bool = False) -> Noise:
    """What happens to the log: on sick jobs only what does not take the proof away."""
    kind = choose.choice(["none", "order", "lost", "skew", "prefix", "restart"])
    return Noise(
        lost=choose.choice([0.001, 0.005]) if kind == "lost" and healthy else 0.0,
        skew=kind == "skew",
        shuffled=kind == "order",
        prefix=kind == "prefix",
        attempts=2 if kind == "restart" and healthy else 1,
        destroyed=healthy and choose.random() < 0.5,
        copied=copied,
    )


def is_right(report: Report, truth: Truth) -> bool:
    """Does the verdict have a fitting code and name the rank at fault, and no rank that is not? In a pair of ranks
    that differ nobody can say which is wrong: there, and in a circle, the other may be named with it."""
    verdict = report.verdict
    if truth.kind is None or verdict.code not in EXPECTED[truth.kind]:
        return False
    named, guilty = set(verdict.ranks), set(truth.ranks)
    if verdict.code == "COLL03" or (len(truth.among) == 2 and verdict.code.startswith("COLL")):
        return guilty <= named and len(named) <= 2
    if truth.kind == "env" and len(truth.among) * 2 == len(verdict.ranks):
        return guilty <= named  # half have the one value, half the other
    return named == guilty


def alarms(report: Report) -> list[str]:
    """The codes of findings above note."""
    return [
        f.code
        for f in report.findings
        if f.severity is not Severity.NOTE and f.code not in EXPECTED_OF_LOGGING
    ]


def one(of: Shape, kind: str | None, choose: random.Random, calls: int) -> Job:
    """A job with this fault; another one where its program has no place for it."""
    while True:
        job = make(of, choose.getrandbits(32), calls)
        try:
            return job if kind is None else hurt(job, kind)
        except ValueError:
            continue


def confusion(
    faults: int,
    healthy: int,
    copies: int,
    calls: int,
    seed: int,
    keep: Path | None,
    experts: bool,
) -> None:
    """Makes the jobs, asks for the verdicts, and prints the table."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    right: Counter[str] = Counter()
    began = time.perf_counter()
    ranks = 0
    names = [KINDS[n % len(KINDS)] for n in range(faults)]
    names += ["healthy"] * healthy + ["copied"] * copies
    for number, name in enumerate(names):
        kind = name if name in KINDS else None
        choose = random.Random(f"{seed} {number}")
        job = one(replace(shape(choose, kind), experts=experts), kind, choose, calls)
        suffered = noise(choose, kind is None, name == "copied")
        ranks += job.shape.ranks
        folder = Path(tempfile.mkdtemp())
        write(job, folder, suffered)
        report = doctor.examine([str(folder)])
        fine = is_right(report, job.truth) if kind else not alarms(report)
        right[name] += fine
        told = report.verdict.code or report.verdict.status.value if kind else ",".join(alarms(report)) or "silent"  # fmt: skip
        table[name][told] += 1
        if not fine:
            print(f"{number} {name}: {told} {report.verdict.ranks} for {job.truth} {job.shape} {suffered}: {report.verdict.headline}")  # fmt: skip
            if keep is not None:
                shutil.copytree(folder, keep / f"{number}-{name}", dirs_exist_ok=True)
                (keep / f"{number}-{name}.json").write_text(json.dumps(asdict(job.truth)))
        shutil.rmtree(folder)
    print("\n| fault | jobs | right | verdicts |\n|---|---|---|---|")
    for name in [*KINDS, "healthy", "copied"]:
        if total := sum(table[name].values()):
            told = ", ".join(f"{code} {count}" for code, count in table[name].most_common())
            print(f"| {name} | {total} | {right[name]} | {told} |")
    hits = sum(right[k] for k in KINDS)
    print(f"\nculprit right in {hits} of {faults} ({100 * hits / max(1, faults):.1f} %), false alarms on {healthy - right['healthy']} of {healthy} healthy jobs")  # fmt: skip
    print(f"{len(names)} jobs with {ranks} ranks in {time.perf_counter() - began:.0f} s")


def large(ranks: int, megabytes: int, workers: int, where: Path, experts: int) -> None:
    """Times a job with three communicators a rank (four with experts), of which one rank stops, from files to report."""
    folder = Path(tempfile.mkdtemp(dir=where))
    calls = megabytes * 1_000_000 // (ranks * 232)
    culprit = ranks * 5 // 7
    faults = generate.Faults(stop={culprit: calls - 7})
    truth = generate.truth(ranks // 8, 8, calls, 1, faults, experts)["faults"][0]
    made = generate.ranks(ranks // 8, 8, 1, "", "", experts)
    try:
        generate.write_files(folder, made, calls, faults, False)  # type: ignore[arg-type]
        (folder / "rank0.out").write_text(WATCHDOG.format(rank=0))
        size = sum(f.stat().st_size for f in folder.iterdir())
        inputs = doctor.gather([str(folder)])
        began, spent = time.perf_counter(), _processor_seconds()
        with doctor.engine(inputs, workers) as executor:
            digests = doctor.digest(inputs, executor)
        parsed, parsing = time.perf_counter() - began, _processor_seconds() - spent
        began, spent = time.perf_counter(), _processor_seconds()
        report = doctor.conclude(digests)
        concluded, concluding = time.perf_counter() - began, _processor_seconds() - spent
        began = time.perf_counter()
        doctor.write_reports(report, html=folder / "r.html", json=folder / "r.json")
        written = time.perf_counter() - began
        sizes = [(folder / name).stat().st_size / 1e6 for name in ("r.html", "r.json")]
    finally:
        shutil.rmtree(folder)
    own, children = (
        resource.getrusage(who).ru_maxrss / 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(f"{ranks} ranks × {4 if experts else 3} communicators, {calls} calls each, {size / 1e9:.2f} GB, {workers} workers")  # fmt: skip
    print(f"parse {parsed:.1f} s = {size / parsed / 1e6:.0f} MB/s; {parsing:.1f} s of the processors; 20 GB would take {20e9 / size * parsed:.0f} s ({20e9 / size * parsing:.0f} s)")  # fmt: skip
    print(f"correlate and diagnose {concluded:.1f} s ({concluding:.1f} s of the processors), report {written:.1f} s (HTML {sizes[0]:.1f} MB, JSON {sizes[1]:.1f} MB)")  # fmt: skip
    print(f"peak memory {own:.0f} MiB, of a worker {children:.0f} MiB")
    print(f"rank {culprit} stops before #{truth['ordinal']} of its communicator {truth['communicator']!r}; verdict: {report.verdict.code} {report.verdict.ranks} {report.verdict.headline}")  # fmt: skip


def _processor_seconds() -> float:
    """Of this process and those that it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=0)
    parser.add_argument("--healthy", type=int, default=0)
    parser.add_argument(
        "--copies", type=int, default=0, help="healthy jobs whose logs were copied while they ran"
    )
    parser.add_argument("--calls", type=int, default=100, help="of each rank")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for the logs of wrong verdicts")
    parser.add_argument("--large", type=int, metavar="RANKS")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument(
        "--experts",
        type=int,
        default=0,
        help="ranks of --large that share experts; any: jobs of --faults too have such groups",
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--where", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    if options.faults or options.healthy or options.copies:
        confusion(
            options.faults,
            options.healthy,
            options.copies,
            options.calls,
            options.seed,
            options.keep,
            options.experts > 0,
        )
    if options.large:
        large(options.large, options.megabytes, options.workers, options.where, options.experts)


if __name__ == "__main__":
    main()
