"""What nccldoctor says beside a job: one line after the other on stderr, for stdout is the job's."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nccldoctor.model.report import Report

_CHARACTERS = 200


def say(text: str) -> None:
    """One line of nccldoctor's own."""
    click.echo(f"nccldoctor: {text}", err=True)


def say_verdict(report: "Report", html: Path) -> None:
    """The verdict with its proof and the next steps, and where the report lies."""
    from nccldoctor.report.places import place
    from nccldoctor.report.proof import decisive, proof
    from nccldoctor.report.words import harmless

    verdict = report.verdict
    code = f"{verdict.code}: " if verdict.code else ""
    say(f"{verdict.status.value}: {code}{harmless(verdict.headline)}")
    top = decisive(report)
    for line in proof(top) if top else ():
        say(f"  proof: {place(line, '')}: {' '.join(harmless(line.text).split())[:_CHARACTERS]}")
    for step in verdict.next:
        say(f"  next: {harmless(step)}")
    say(f"report {html}")
