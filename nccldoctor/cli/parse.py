"""`nccldoctor parse`: evidence in, report out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nccldoctor.cli.gravity import fail_on_option, fails
from nccldoctor.cli.output import put, refuse_two
from nccldoctor.errors import DoctorError

if TYPE_CHECKING:
    from nccldoctor.model.report import Report


@click.command(name="parse")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option(
    "--html", metavar="FILE", help="Where the HTML report goes.  [nccldoctor-report.html]"
)
@click.option("--json", metavar="FILE", help="Write JSON too; - for standard output.")
@click.option(
    "--markdown", metavar="FILE", help="Write Markdown for a ticket; - for standard output."
)
@click.option("--no-html", is_flag=True, help="Do not write the HTML report.")
@fail_on_option("Exit with 1 when there is a finding at or above this.")
@click.option(
    "--redact",
    "redacted",
    is_flag=True,
    help="Replace hosts, addresses, paths and users by pseudonyms.",
)
@click.option(
    "--redact-key", metavar="FILE", help="Redact, and keep here which pseudonym is whose."
)
@click.option("--jobs", type=click.IntRange(1), help="Processes that read files.  [cores]")
@click.option(
    "--engine",
    type=click.Choice(["processes", "dask"]),
    default="processes",
    show_default=True,
    help="What reads the files: processes here, or Dask workers next to the logs.",
)
@click.option(
    "--scheduler", metavar="tcp://HOST:PORT", help="A running Dask scheduler; without it, one here."
)
@click.option(
    "--slurm",
    type=click.IntRange(1),
    metavar="JOBS",
    help="With --engine dask: this many Slurm jobs read, through dask-jobqueue.",
)
@click.option("--partial", is_flag=True, help="I know that logs of some ranks are missing.")
@click.option("--select", metavar="CODES", help="Only these codes or groups, comma-separated.")
@click.option("--ignore", metavar="CODES", help="Not these codes or groups, comma-separated.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def command(
    paths: tuple[str, ...],
    html: str | None,
    json: str | None,
    markdown: str | None,
    no_html: bool,
    fail_on: str,
    redacted: bool,
    redact_key: str | None,
    jobs: int | None,
    engine: str,
    scheduler: str | None,
    slurm: int | None,
    partial: bool,
    select: str | None,
    ignore: str | None,
    quiet: bool,
) -> None:
    """Read evidence of a job and write the report.

    PATH… are files, globs, folders, or - for standard input: NCCL logs, the ranks' output, flight-recorder dumps,
    RAS answers, topology files, nvidia-smi and kernel text, compressed or in tar files.

    \b
    nccldoctor parse /tmp/nccl_debug_*.log rank*.out
    nccldoctor parse run-folder/ --json - --no-html
    kubectl logs job/train --all-containers --prefix | nccldoctor parse -
    """
    import gc
    from json import dumps

    from nccldoctor import doctor, report
    from nccldoctor.cli.progress import progress
    from nccldoctor.report.atomic import write_text
    from nccldoctor.report.redact import redact, redact_with_key

    refuse_two(json, markdown, "--json and --markdown")
    selected, ignored = _codes(select), _codes(ignore)
    if (scheduler or slurm) and engine != "dask":
        raise DoctorError("--scheduler and --slurm need --engine dask")
    if scheduler and slurm:
        raise DoctorError("Only one of --scheduler and --slurm can be given")
    inputs = doctor.gather(paths)
    hushed = quiet or "-" in (json, markdown)
    with (
        doctor.engine(inputs, jobs, engine, scheduler, slurm) as executor,
        progress("Reading", quiet=hushed) as shown,
    ):
        digests = doctor.digest(inputs, executor, shown)
    gc.freeze()  # what was read is in use to the end
    doctor.refuse_nothing(digests)
    result = doctor.conclude(digests, partial=partial)
    if selected or ignored:
        result = doctor.narrowed(result, selected, ignored)
    if redacted and not redact_key:
        result = redact(result)
    elif redact_key:
        result, names = redact_with_key(result)
        write_text(Path(redact_key), dumps(names, indent=1, sort_keys=True) + "\n")
    written = None if no_html else Path(html or "nccldoctor-report.html")
    trouble = _write(
        result,
        html=written,
        json=Path(json) if json and json != "-" else None,
        markdown=Path(markdown) if markdown and markdown != "-" else None,
    )
    if json == "-":
        put(report.to_json(result), json)
    elif markdown == "-":
        put(report.to_markdown(result), markdown)
    elif not quiet:
        report.show(result, None if trouble else written)
    if trouble:
        raise trouble
    if fails((f.severity.value for f in result.findings), fail_on):
        sys.exit(1)


def _write(result: Report, **places: Path | None) -> DoctorError | None:
    """Writes the reports; what is in the way is told after the verdict, which nobody should lose to it."""
    from nccldoctor.doctor import write_reports

    try:
        write_reports(result, **places)
    except DoctorError as error:
        return error
    return None


def _codes(text: str | None) -> tuple[str, ...]:
    """Codes and groups in capitals. Raises DoctorError on one that no diagnosis has."""
    from nccldoctor.diagnose.catalogue import diagnoses

    named = tuple(code.strip().upper() for code in (text or "").split(",") if code.strip())
    codes = {d.code for d in diagnoses()} if named else set()
    known = codes | {code.rstrip("0123456789") for code in codes}
    if strange := [code for code in named if code not in known]:
        raise DoctorError(f"No diagnosis has the code {strange[0]}; `nccldoctor explain` lists all")
    return named
