"""What follows a watched run: the report over its folder, and the fallback ladder where one was asked for."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nccldoctor.cli.telling import say, say_verdict
from nccldoctor.errors import DoctorError

if TYPE_CHECKING:
    from nccldoctor.model.report import Report

_NO_LEVER_HELPS = ("HANG01", "COLL", "CODE", "INIT02", "INIT04", "INIT05", "INIT10")
_ASKED_TO_STOP = (129, 130, 143)


def report_on(folder: Path, *elsewhere: str) -> "Report | None":
    """Writes the reports of a run folder and tells the verdict. A failure here never hides the job's end.

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
    say_verdict(report, folder / "report.html")
    return report


def fall_back(
    how: str,
    folder: Path,
    environ: dict[str, str],
    exit_code: int,
    report: "Report | None",
    again: Callable[[Path, dict[str, str]], int],
    *,
    processes: int | None = None,
) -> int:
    """Climbs the ladder with the job itself or with the probe, and says which layer is at fault.

    The new runs lie beside the run folder. Returns 0 when the job went through in the end, else `exit_code`, which is
    the job's own.
    """
    if exit_code in (0, *_ASKED_TO_STOP):
        return exit_code
    why = hopeless(report)
    if why is not None:
        say(f"no fallback tried: {why}, which no setting of NCCL mends")
        return exit_code
    beside = folder.with_name(f"{folder.name}-fallback")
    try:
        beside.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        say(f"no fallback tried: {beside} cannot be made ({error.strerror})")
        return exit_code
    if how == "probe":
        _probe(beside / "probe", environ, processes)
        return exit_code
    return _climb(beside, folder, environ, exit_code, again)


def _climb(
    beside: Path,
    folder: Path,
    environ: dict[str, str],
    exit_code: int,
    again: Callable[[Path, dict[str, str]], int],
) -> int:
    from nccldoctor.collect import bundle, hostfacts, ladder

    def run(lever: ladder.Lever, changed: dict[str, str]) -> int:
        say(f"fallback {lever.name}: {' '.join(f'{k}={v}' for k, v in lever.variables.items())}")
        return again(bundle.make(beside / lever.name, changed), changed)

    rungs = ladder.climb(environ, run)
    sentences = ladder.tell(rungs)
    for sentence in sentences:
        say(sentence)
    note = {"host": hostfacts.host_name(), "fallback": ladder.note(rungs), "told": sentences}
    bundle.snapshot(folder, "fallback.json", note)
    report_on(folder)
    return 0 if rungs and rungs[-1].exit_code == 0 else exit_code


def _probe(folder: Path, environ: dict[str, str], processes: int | None) -> None:
    """The levers with the probe; its own report has the verdict, and the job is not run again."""
    from nccldoctor.collect import ladder, launch

    levers = launch.gpus() > 0
    what = "the same layers one at a time" if levers else "no GPU here, so no layer of NCCL's"
    say(f"fallback probe: {what}, without the job")
    code = ladder.probe(folder, environ, processes=processes, levers=levers)
    found = "it found a fault" if code == 1 else "it found none" if code == 0 else "it did not work"
    say(f"fallback probe: {found}; report {folder / 'report.html'}")


def hopeless(report: "Report | None") -> str | None:
    """Why no lever is worth a try: the verdict is a fault of the program."""
    from nccldoctor.diagnose.catalogue.crash.rank_died import is_own
    from nccldoctor.model.events.torch import PythonException

    if report is None or report.verdict.code is None:
        return None
    code = report.verdict.code
    if code.startswith(_NO_LEVER_HELPS):
        return f"{code} is a fault of the program"
    raised = [e for job in report.jobs for e in job.events(PythonException) if is_own(e)]
    if code == "CRASH01" and raised:
        return f"a rank raised {raised[0].type}"
    return None
