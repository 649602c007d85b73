"""Texts made to let a regular expression run as long as it can, read off the expression itself."""

import re
from collections.abc import Iterator
from typing import Any

try:
    from re import _constants as codes
    from re import _parser as parser
except ImportError:  # Python 3.10
    import sre_constants as codes
    import sre_parse as parser

_SETS = {"CATEGORY_DIGIT": "0", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a", "CATEGORY_NOT_DIGIT": "a", "CATEGORY_NOT_SPACE": "a", "CATEGORY_NOT_WORD": "-"}  # fmt: skip
_TRIED = "a0 _-./:=[]()<>,#@A\t"


def attacks(regex: "re.Pattern[Any]") -> Iterator[tuple[str, str]]:
    """(beginning, what to repeat behind it): for every repetition in the expression, and for a search from each place."""
    pattern = regex.pattern if isinstance(regex.pattern, str) else regex.pattern.decode("latin-1")
    tree = list(
        parser.parse(
            pattern, regex.flags & ~re.UNICODE if isinstance(regex.pattern, bytes) else regex.flags
        )
    )
    seen = set()
    for attack in _in(tree, ""):
        if attack[1] and attack not in seen:
            seen.add(attack)
            yield attack
            yield "", attack[0] + attack[1]


def _in(tree: list[Any], before: str) -> Iterator[tuple[str, str]]:
    for code, value in tree:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, getattr(codes, "POSSESSIVE_REPEAT", None)):
            low, high, body = value
            yield before, _witness(body)
            yield from _in(list(body), before)
            before += _witness(body) * max(low, 1 if high else 0)
        elif code is codes.SUBPATTERN:
            yield from _in(list(value[-1]), before)
            before += _witness(value[-1])
        elif code is codes.BRANCH:
            for branch in value[1]:
                yield from _in(list(branch), before)
            before += _witness(value[1][0])
        else:
            before += _witness([(code, value)])
    yield "", before


def _witness(tree: Any) -> str:
    """A text that the tree matches, as short as is easy."""
    made = ""
    for code, value in tree:
        if code is codes.LITERAL:
            made += chr(value)
        elif code is codes.NOT_LITERAL:
            made += next(c for c in _TRIED if ord(c) != value)
        elif code is codes.ANY:
            made += "a"
        elif code is codes.IN:
            made += _member(value)
        elif code is codes.BRANCH:
            made += _witness(value[1][0])
        elif code is codes.SUBPATTERN:
            made += _witness(value[-1])
        elif code in (
            codes.MAX_REPEAT,
            codes.MIN_REPEAT,
            getattr(codes, "POSSESSIVE_REPEAT", None),
        ):
            made += _witness(value[2]) * value[0]
        elif code is getattr(codes, "ATOMIC_GROUP", None):
            made += _witness(value)
    return made


def _member(items: list[Any]) -> str:
    if items[0][0] is codes.NEGATE:
        return next((c for c in _TRIED if not any(_holds(item, c) for item in items[1:])), "~")
    code, value = items[0]
    if code is codes.LITERAL:
        return chr(value)
    return chr(value[0]) if code is codes.RANGE else _SETS.get(str(value), "a")


def _holds(item: Any, character: str) -> bool:
    code, value = item
    if code is codes.LITERAL:
        return ord(character) == value
    if code is codes.RANGE:
        return value[0] <= ord(character) <= value[1]
    tested = {"CATEGORY_DIGIT": r"\d", "CATEGORY_SPACE": r"\s", "CATEGORY_WORD": r"\w", "CATEGORY_NOT_DIGIT": r"\D", "CATEGORY_NOT_SPACE": r"\S", "CATEGORY_NOT_WORD": r"\W"}  # fmt: skip
    return re.match(tested[str(value)], character) is not None
