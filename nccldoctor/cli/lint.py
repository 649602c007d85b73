"""`nccldoctor lint`: what is wrong in a training script, told before it runs."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nccldoctor.cli.gravity import fail_on_option, fails
from nccldoctor.cli.output import put, refuse_two
from nccldoctor.errors import DoctorError

if TYPE_CHECKING:
    from nccldoctor.lint.config import Config
    from nccldoctor.lint.engine import Outcome


@click.command(name="lint")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option(
    "--json", "json_file", metavar="FILE", help="Write JSON to FILE, `-` for standard output."
)
@click.option("--sarif", "sarif_file", metavar="FILE", help="Write SARIF 2.1.0 to FILE or `-`.")
@click.option("--github", is_flag=True, help="Print annotations for GitHub Actions.")
@click.option(
    "--select", multiple=True, metavar="CODES", help="Only these rules, as CODE04,CODE06."
)
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these rules.")
@click.option(
    "--confidence",
    type=click.Choice(["high", "medium", "low"]),
    help="Show findings at least this sure.  [default: medium]",
)
@fail_on_option("Exit with 1 from this severity on.  [default: error]", default=None)
@click.option("--fix", is_flag=True, help="Show what can be mended mechanically, as a diff.")
@click.option("--write", is_flag=True, help="With --fix: change the files.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the summary.")
def command(
    paths: tuple[str, ...],
    json_file: str | None,
    sarif_file: str | None,
    github: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    confidence: str | None,
    fail_on: str | None,
    fix: bool,
    write: bool,
    quiet: bool,
) -> None:
    """Check training scripts, folders and notebooks for mistakes that hang, crash or slow a distributed job.

    Nothing is imported or run. Without PATH, the current folder is checked. `# nccldoctor: ignore[CODE04]` silences
    a line, `[tool.nccldoctor]` in pyproject.toml configures a project, `nccldoctor explain CODE04` explains a rule.

    \b
    nccldoctor lint train.py
    nccldoctor lint --fix train.py            # a diff
    nccldoctor lint --sarif lint.sarif src/
    """
    from nccldoctor.lint.engine import check

    if write and not fix:
        raise DoctorError(
            "--write changes files together with --fix: nccldoctor lint --fix --write"
        )
    given = paths or (".",)
    config = _config(Path(given[0]), select, ignore, confidence, fail_on)
    outcome = check(given, config)
    if outcome.unreadable and outcome.files == len(outcome.unreadable):
        path, reason = outcome.unreadable[0]
        raise DoctorError(f"{path}: {reason}")
    _write(outcome, json_file, sarif_file)
    if "-" not in (json_file, sarif_file):
        _print(outcome, github, fix, write, quiet)
    grave = fails((c.finding.severity.value for c in outcome.checked), config.fail_on)
    raise SystemExit(int(grave))


def _config(
    start: Path,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    confidence: str | None,
    fail_on: str | None,
) -> "Config":
    from nccldoctor.lint.config import read_config
    from nccldoctor.model.finding import Confidence

    config = read_config(start)
    selected, ignored = _codes(select), _codes(ignore)
    return replace(
        config,
        select=selected or config.select,
        ignore=config.ignore + ignored,
        confidence=Confidence(confidence) if confidence else config.confidence,
        fail_on=fail_on or config.fail_on,
    )


def _codes(given: tuple[str, ...]) -> tuple[str, ...]:
    """The codes of `--select A,B --select C`; raises DoctorError for one that no rule has."""
    from nccldoctor.lint.rules import rules

    codes = tuple(code for text in given for code in text.replace(",", " ").split())
    for code in codes:
        if not any(r.code.startswith(code.upper()) or r.name == code.casefold() for r in rules()):
            raise DoctorError(f"No rule is called {code!r}; `nccldoctor explain CODE` lists them")
    return codes


def _write(outcome: "Outcome", json_file: str | None, sarif_file: str | None) -> None:
    from nccldoctor.lint.outputs.json import as_json
    from nccldoctor.lint.outputs.sarif import as_sarif

    refuse_two(json_file, sarif_file, "--json and --sarif")
    for file, form in ((json_file, as_json), (sarif_file, as_sarif)):
        if file:
            put(form(outcome), file)


def _print(outcome: "Outcome", github: bool, fix: bool, write: bool, quiet: bool) -> None:
    from nccldoctor.lint.outputs.github import annotations
    from nccldoctor.lint.outputs.text import summary, text

    if github:
        for line in annotations(outcome):
            click.echo(line)
    elif fix:
        _fix(outcome, write)
    elif quiet:
        click.echo(summary(outcome))
    else:
        for line in text(outcome):
            click.echo(line)


def _fix(outcome: "Outcome", write: bool) -> None:
    from nccldoctor.lint.edits import diff, mended_files

    changed = 0
    for path, before, after in mended_files(outcome):
        changed += 1
        if write:
            with path.open("w", encoding="utf-8", newline="") as file:
                file.write(after)
            click.echo(f"mended {path.as_posix()}")
        else:
            click.echo(diff(path.as_posix(), before, after), nl=False)
    if not changed:
        click.echo("Nothing here can be mended mechanically.")
    elif not write:
        click.echo(f"# {changed} file(s); --fix --write changes them", err=True)
