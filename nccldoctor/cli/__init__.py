"""The command line: declares commands and prints; each command has a file of its own, loaded when it is called."""

import importlib
import io
import os
import sys
from typing import Any

import click

from nccldoctor import __version__
from nccldoctor.errors import DoctorError

_COMMANDS = {
    "parse": "Read evidence of a job and write the report.",
    "explain": "Explain a diagnosis code, list or search them.",
    "run": "Launch a job under watch, and report on it.",
    "watch": "Watch a job that is already running.",
    "probe": "Test the machine with a job of collectives.",
    "topo": "Show how this machine's GPUs are linked.",
    "lint": "Check a training script before it runs.",
    "env": "Check the NCCL and PyTorch variables of this environment.",
    "diff": "Compare two runs, bundles or reports.",
    "digest": "Digest logs where they lie, to be parsed elsewhere.",
    "selftest": "Inject faults on this machine and check the verdicts.",
}


class _Lazy(click.Group):
    """Loads a command's module when it is called, so that `--help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"nccldoctor.cli.{name}").command
        if ctx.resilient_parsing:
            importlib.import_module("nccldoctor.cli.completing").equip(command, name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in _COMMANDS and os.path.exists(word):  # noqa: PTH110 - pathlib takes longer to load than all of this
            raise click.UsageError(
                f"No such command '{word}'. To read {word}: nccldoctor parse {word}", ctx
            )
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(word, _COMMANDS, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(error.message + hint, ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal without our signs gets a ?
        try:
            return super().invoke(ctx)
        except DoctorError as error:
            click.echo(f"nccldoctor: {error}", err=True)
            ctx.exit(error.exit_code)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name]) for name in self.list_commands(ctx)])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="nccldoctor")
def main(**_: Any) -> None:
    """Which rank, on which host, in which call, why, and what to do next.

    \b
    After the fact:   nccldoctor parse /tmp/nccl_debug_*.log rank*.out
    From the start:   nccldoctor run train.py
    While it hangs:   nccldoctor watch --pid PID
    """
