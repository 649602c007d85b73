"""What each command's page and man page say, taken from the commands themselves: usage, text, options."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click

from nccldoctor.cli import _COMMANDS, main

METAVARS = {"integer": "N", "integer range": "N", "float": "NUMBER", "float range": "NUMBER"}


@dataclass(frozen=True, slots=True)
class Option:
    """`names` as they are typed, with the value they take, and what they do."""

    names: str
    help: str


@dataclass(frozen=True, slots=True)
class Described:
    """A command. Blocks of text are paragraphs, or lines of examples where `(True, text)` says so."""

    name: str
    summary: str
    usage: str
    blocks: Sequence[tuple[bool, str]]
    options: Sequence[Option]


def commands() -> list[Described]:
    """All commands, in the order of `nccldoctor --help`."""
    context = click.Context(main, info_name="nccldoctor")
    return [
        _describe(main.get_command(context, name), name) for name in main.list_commands(context)
    ]


def _describe(command: click.Command | None, name: str) -> Described:
    assert command is not None, name
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    words = (command.options_metavar or "", *map(_argument, arguments))
    return Described(
        name=name,
        summary=_COMMANDS[name],
        usage=" ".join(["nccldoctor", name, *(w for w in words if w)]),
        blocks=tuple(_blocks(command.help or "")),
        options=(*map(_option, options), Option("-h, --help", "Show the help and exit.")),
    )


def _argument(param: click.Argument) -> str:
    shown = param.metavar or (param.name or "").upper() + ("…" if param.nargs == -1 else "")
    return shown if param.required or shown.startswith("[") else f"[{shown}]"


def _option(param: click.Option) -> Option:
    names = ", ".join(sorted(param.opts, key=len))
    value = "" if param.is_flag else f" {param.metavar or _values(param.type)}"
    text = " ".join((param.help or "").split())
    if param.show_default and not param.is_flag:
        text += f" [default: {param.default}]"
    return Option(names + value, text)


def _values(kind: click.ParamType) -> str:
    if isinstance(kind, click.Choice):
        return "|".join(map(str, kind.choices))
    return METAVARS.get(kind.name, kind.name.upper())


def _blocks(text: str) -> Iterable[tuple[bool, str]]:
    """Paragraphs, and the blocks that click leaves as they are (behind a line with a backspace)."""
    for block in text.split("\f")[0].split("\n\n"):
        lines = [line.rstrip() for line in block.strip("\n").splitlines()]
        if lines and lines[0].strip() == "\b":
            yield True, "\n".join(line.strip() for line in lines[1:]).strip()
        elif lines:
            yield False, " ".join(line.strip() for line in lines).strip()
