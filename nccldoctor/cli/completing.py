"""What a shell's TAB offers beyond commands and options: files, codes, variables, faults; loaded only then."""

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

Words = Callable[[], Iterable[tuple[str, str]]]
"""Gives what may stand there, each with a word of explanation for the shells that show one."""


class Files(click.types.StringParamType):
    """A file or folder, which the shell completes itself."""

    name = "file"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


class Listed(click.types.StringParamType):
    """One of the words, or several with commas between them."""

    name = "listed"

    def __init__(self, words: Words) -> None:
        self.words = words

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        begun = last.casefold()
        hits = [(w, text) for w, text in self.words() if w.casefold().startswith(begun)]
        return [CompletionItem(f"{before}{comma}{word}", help=text) for word, text in hits]


def equip(command: click.Command, name: str) -> None:
    """Lets the parameters of this command complete what their placeholder stands for."""
    for param in command.params:
        shown = param.metavar or ""
        if words := _WORDS.get((name, param.name or "")):
            param.type = Listed(words)
        elif shown == "CODES":
            param.type = Listed(_rules if name == "lint" else _diagnoses)
        elif "FILE" in shown or "PATH" in shown or shown in ("GOOD", "BAD") or "train.py" in shown:
            param.type = Files()


def _diagnoses() -> Iterable[tuple[str, str]]:
    from nccldoctor.diagnose.catalogue import diagnoses

    return [(d.code, d.name) for d in diagnoses()]


def _rules() -> Iterable[tuple[str, str]]:
    from nccldoctor.lint.rules import rules

    return [(r.code, r.name) for r in rules()]


def _explained() -> Iterable[tuple[str, str]]:
    return [*_diagnoses(), *_rules()]


def _variables() -> Iterable[tuple[str, str]]:
    from nccldoctor.knowledge.environment import variables

    return [(name, "") for name in sorted(variables())]


def _faults() -> Iterable[tuple[str, str]]:
    from nccldoctor.collect.selftest import FAULTS

    return [(fault.mode, fault.what) for fault in FAULTS]


_WORDS: dict[tuple[str, str], Words] = {
    ("explain", "words"): _explained,
    ("env", "explain"): _variables,
    ("selftest", "only"): _faults,
}
