"""A remedy's step, told apart: a command to paste, with the words behind its `#`, or advice in words."""

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"\s{1,8}#\s+")
_TELLING = re.compile(r"^-|=|/|\||\(|^\$|^[A-Z][A-Z0-9]*_[A-Z0-9_]+$|^PID$")
_OURS = frozenset({"nccldoctor", "export", "unset"})


@dataclass(frozen=True, slots=True)
class Step:
    """`words` is the command or the advice; `why` what stands behind the command's `#`."""

    words: str
    why: str
    command: bool


def step(text: str) -> Step:
    """The step that this line of a remedy is."""
    words, _, why = _split(text.strip())
    tokens = words.split()
    command = bool(tokens) and (
        tokens[0] in _OURS
        or "=" in tokens[0]
        or "(" in tokens[0]
        or (
            tokens[0][:1].islower()
            and not tokens[0].endswith((":", ","))
            and any(_TELLING.search(token) for token in tokens[1:4])
        )
    )
    return Step(words, why, True) if command else Step(text.strip(), "", False)


def _split(text: str) -> tuple[str, str, str]:
    found = _COMMENT.search(text)
    return (text[: found.start()], "#", text[found.end() :]) if found else (text, "", "")
