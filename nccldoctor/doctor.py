"""The pipeline on one page: evidence files → digests → jobs → findings → report."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from nccldoctor import correlate, report
from nccldoctor.diagnose import verdict
from nccldoctor.diagnose.catalogue import diagnoses
from nccldoctor.diagnose.engine import by_importance
from nccldoctor.diagnose.engine import examine as examine_job
from nccldoctor.diagnose.hardware import expectation
from nccldoctor.diagnose.words import some
from nccldoctor.errors import DoctorError
from nccldoctor.evidence.discover import Input, discover
from nccldoctor.model.digest import Coverage, Digest, Unknown
from nccldoctor.model.events.measured import BandwidthRow
from nccldoctor.model.finding import Finding, NotChecked
from nccldoctor.model.job import Job
from nccldoctor.model.report import Report
from nccldoctor.model.source import Kind
from nccldoctor.parse import digest_input, reread, unreadable
from nccldoctor.report.atomic import write_text
from nccldoctor.spread import dask, processes, spread

WORTH_PROCESSES_BYTES = 16 << 20

Progress = Callable[[int, int], None]
"""Told how many inputs are done, and of how many."""


def examine(
    paths: Sequence[str],
    *,
    executor: Executor | None = None,
    partial: bool = False,
    progress: Progress | None = None,
) -> Report:
    """The report on everything below these paths; `executor` digests several files at a time.

    Raises DoctorError when no path can be read.
    """
    return conclude(digest(gather(paths), executor, progress), partial=partial)


def gather(paths: Sequence[str]) -> list[Input]:
    """The inputs behind these paths. Raises DoctorError, saying how to mend it, when none can be used."""
    inputs = discover(paths)
    if all(item.trouble for item in inputs):
        raise _nothing([(item.path, item.trouble) for item in inputs])
    return inputs


def refuse_nothing(digests: Sequence[Digest]) -> None:
    """Raises DoctorError when every input is empty, closed, damaged or of a kind that is no evidence."""
    silent = (Kind.EMPTY, Kind.FOREIGN, Kind.UNREADABLE)
    if all(d.source.kind in silent for d in digests):
        raise _nothing([(d.source.path, d.source.note) for d in digests])


def _nothing(told: Sequence[tuple[str, str]]) -> DoctorError:
    paths: dict[str, list[str]] = {}
    for path, note in told:
        paths.setdefault(note, []).append(path)
    why = "; ".join(f"{some(those, 3)}: {note}" for note, those in paths.items())
    return DoctorError(
        f"Nothing to read ({why}). Give files or folders with NCCL logs, ranks' output or dumps"
    )


def digest(
    inputs: Sequence[Input], executor: Executor | None = None, progress: Progress | None = None
) -> list[Digest]:
    """The digests of all inputs, in their order, whoever makes them."""
    digests: list[Digest] = []
    for number, done in enumerate(spread(digest_input, inputs, unreadable, executor), 1):
        digests += done
        if progress is not None:
            progress(number, len(inputs))
    return digests


def conclude(digests: Sequence[Digest], *, partial: bool = False) -> Report:
    """The report that these digests add up to; the same digests give the same bytes."""
    jobs = correlate.build(digests, reread, partial=partial)
    findings, not_checked = _diagnose(jobs)
    return Report(
        verdict=verdict.decide(findings, jobs),
        findings=findings,
        not_checked=not_checked,
        jobs=jobs,
        facts=tuple(correlate.facts(job, _expected) for job in jobs),
        coverage=_coverage(d.coverage for d in digests),
        inputs=tuple(d.source for d in digests),
    )


def write_reports(
    result: Report,
    *,
    html: Path | None = None,
    json: Path | None = None,
    markdown: Path | None = None,
) -> None:
    """Writes the reports asked for, each whole or not at all."""
    for path, render in (
        (html, report.to_html),
        (json, report.to_json),
        (markdown, report.to_markdown),
    ):
        if path is not None:
            write_text(path, render(result))


def narrowed(result: Report, select: Sequence[str], ignore: Sequence[str]) -> Report:
    """The report with only the codes (or groups) selected and none of those ignored, and a verdict to match."""

    def wanted(code: str) -> bool:
        names = (code, code.rstrip("0123456789"))
        return (not select or any(n in select for n in names)) and not any(
            n in ignore for n in names
        )

    findings = tuple(f for f in result.findings if wanted(f.code))
    return replace(
        result,
        findings=findings,
        not_checked=tuple(n for n in result.not_checked if wanted(n.code)),
        verdict=verdict.decide(findings, result.jobs),
    )


def engine(
    inputs: Sequence[Input],
    workers: int | None = None,
    name: str = "processes",
    scheduler: str | None = None,
    slurm: int | None = None,
) -> AbstractContextManager[Executor | None]:
    """What digests the inputs: processes of this machine where there is enough to read, or Dask."""
    count = workers or usable_cores()
    if name == "dask":
        return dask(scheduler, count, slurm)
    if len(inputs) < 2 or sum(item.size or 0 for item in inputs) < WORTH_PROCESSES_BYTES:
        count = 1
    return processes(count)


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _diagnose(jobs: Sequence[Job]) -> tuple[tuple[Finding, ...], tuple[NotChecked, ...]]:
    every = diagnoses()
    results = [examine_job(job, every) for job in jobs]
    if len(results) == 1:
        return results[0]
    findings = by_importance(f for found, _ in results for f in found)
    not_checked = {n.code: n for _, missing in results for n in missing}
    checked = {d.code for d in every} - {
        code for code in not_checked if all(code in {n.code for n in m} for _, m in results)
    }
    return findings, tuple(n for code, n in sorted(not_checked.items()) if code not in checked)


def _expected(job: Job, row: BandwidthRow) -> float | None:
    found = expectation(job, row)
    return found.gbytes_per_second if found else None


def _coverage(parts: Iterable[Coverage]) -> Coverage:
    lines = records = understood = 0
    unknown: dict[str, Unknown] = {}
    for part in parts:
        lines += part.lines
        records += part.records
        understood += part.understood
        for shape in part.unknown:
            known = unknown.get(shape.shape)
            count = shape.count + (known.count if known else 0)
            first = known.first if known else shape.first
            unknown[shape.shape] = Unknown(shape.shape, count, first)
    ordered = sorted(unknown.values(), key=lambda u: (-u.count, u.shape))
    return Coverage(lines, records, understood, tuple(ordered))
