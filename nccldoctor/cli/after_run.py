"""What follows a watched run: the report over its folder, and the fallback ladder where one was asked for."""

from collections.abc import Callable
from pathlib import Path

import click

from nccldoctor.errors import DoctorError

_NO_LEVER_HELPS = ("HANG01", "COLL", "CODE", "CRASH01", "INIT02", "INIT04", "INIT05", "INIT10")


def say(text: str) -> None:
    """One line of nccldoctor's own, on stderr: stdout is the job's."""
    click.echo(f"nccldoctor: {text}", err=True)


def report_on(folder: Path, *elsewhere: str) -> str | None:
    """Writes the reports of a run folder and tells the verdict; its code. A failure here never hides the job's end.

    `elsewhere` are further files of the job, outside the folder.
    """
    from nccldoctor.doctor import examine, write_reports

    try:
        report = examine([str(folder), *elsewhere])
        write_reports(
            report, html=folder / "report.html", json=folder / "report.json", markdown=None
        )
    except DoctorError as error:
        say(f"no report: {error}")
        return None
    except Exception as error:
        say(f"no report: {type(error).__name__}: {error}; the evidence is in {folder}")
        return None
    verdict = report.verdict
    say(f"{verdict.status.value}: {f'{verdict.code}: ' if verdict.code else ''}{verdict.headline}")
    for step in verdict.next:
        say(f"  next: {step}")
    say(f"report {folder / 'report.html'}")
    return verdict.code


def fall_back(
    how: str,
    folder: Path,
    environ: dict[str, str],
    code: str | None,
    again: Callable[[Path, dict[str, str]], int],
) -> None:
    """Climbs the ladder with the job itself or with the probe, beside the run folder, and says which layer is at fault."""
    from nccldoctor.collect import bundle, ladder

    if code is not None and code.startswith(_NO_LEVER_HELPS):
        say(f"no fallback tried: {code} is a fault of the program, which no setting of NCCL mends")
        return
    beside = folder.with_name(f"{folder.name}-fallback")
    beside.mkdir(parents=True, exist_ok=True)
    if how == "probe":
        ladder.probe(beside / "probe", environ)
        return

    def run(lever: ladder.Lever, changed: dict[str, str]) -> int:
        say(f"fallback {lever.name}: {' '.join(f'{k}={v}' for k, v in lever.variables.items())}")
        return again(bundle.make(beside / lever.name, changed), changed)

    rungs = ladder.climb(environ, run)
    sentences = ladder.tell(rungs)
    for sentence in sentences:
        say(sentence)
    tries = [
        {"lever": r.lever.name, "variables": dict(r.lever.variables), "exit_code": r.exit_code}
        for r in rungs
    ]
    bundle.snapshot(beside, "fallback.json", {"fallback": tries, "told": sentences})
