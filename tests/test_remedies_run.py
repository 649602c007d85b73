"""Commands of nccldoctor that a remedy tells people to paste are commands that it has, with options that it knows."""

import re
import shlex

import click
import pytest

from nccldoctor.cli import main
from nccldoctor.diagnose.catalogue import diagnoses
from nccldoctor.model.evidence import TURN_ON
from nccldoctor.report.steps import step

_STANDS_FOR = {"PID": "1", "N": "2", "SECONDS": "5", "…": "train.py"}


def _commands() -> list[str]:
    told = {words for d in diagnoses() for words in (*d.remedy, *d.confirm)} | {*TURN_ON.values()}
    found = {
        part.strip()
        for words in told
        for part in re.split(r"[;|&]", step(words).words)
        if part.strip().startswith("nccldoctor ")
    }
    return sorted(found)


def test_there_are_some() -> None:
    assert len(_commands()) > 5


@pytest.mark.parametrize("words", _commands())
def test_it_is_a_command_with_known_options(words: str) -> None:
    name, *rest = [_STANDS_FOR.get(w, w) for w in shlex.split(words.partition(">")[0])][1:]
    command = main.get_command(click.Context(main), name)
    assert command is not None, words
    command.make_context(name, rest or ["x"] * (name in ("parse", "run", "diff")))
