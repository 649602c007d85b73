"""Where a command's text goes: standard output for `-`, else a file, which is written whole or not at all."""

from pathlib import Path

import click

from nccldoctor.errors import DoctorError


def put(text: str, file: str) -> None:
    """Raises DoctorError, naming the file, when it cannot be written."""
    from nccldoctor.report.atomic import write_text

    if file == "-":
        click.echo(text, nl=False)
    else:
        write_text(Path(file), text)


def refuse_two(first: str | None, second: str | None, names: str) -> None:
    """Raises DoctorError where both are to go to standard output; `names` are those of the two options."""
    if first == second == "-":
        raise DoctorError(f"Only one of {names} can go to standard output")
