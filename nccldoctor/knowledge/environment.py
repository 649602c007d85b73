"""The variables that NCCL, RCCL and PyTorch read: since when, until when, with which values, and what a wrong name meant."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

from nccldoctor.knowledge.owners import owner

__all__ = ["Variable", "distance", "known_at", "lookup", "nearest", "numbers", "owner", "variables"]

_FAMILIES = ("NCCL_", "RCCL_", "TORCH_NCCL_", "TORCH_FR_")


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable. `vendor` is nccl, rccl, torch, or nobody for a well-spread name that nothing reads.

    `since` is the first version that knows it, None when it is not known or older than any in use; `gone` the first
    that does not, or `after X` where X is the last that does. Versions are of the vendor's library. `number` when
    the library reads an integer. `source` says where these facts were read.
    """

    name: str
    vendor: str
    source: str
    since: str | None = None
    gone: str | None = None
    deprecated: str | None = None
    replaced_by: str | None = None
    values: str | None = None
    default: str | None = None
    number: bool = False
    about: str = ""


@cache
def variables() -> Mapping[str, Variable]:
    """All variables by name."""
    text = files("nccldoctor.knowledge").joinpath("variables.json").read_text("utf-8")
    return {entry["name"]: Variable(**entry) for entry in json.loads(text)["variables"]}


def lookup(name: str) -> Variable | None:
    """The variable of exactly this name."""
    return variables().get(name)


def known_at(name: str, version: str | None) -> bool | None:
    """Does that version of the vendor's library read it? None where that cannot be told.

    A variable of nobody, or one with an unknown name, is never read.
    """
    variable = lookup(name)
    if variable is None or variable.vendor == "nobody":
        return False
    at = numbers(version)
    since = numbers(variable.since)
    if variable.vendor == "rccl" or not at:
        return None
    if since and at < since:
        return False
    if variable.gone is None:
        return True
    gone = numbers(variable.gone)
    if variable.gone.startswith("after"):
        # Between the last tag that has it and the next tag that lacks it lies what nobody has looked at.
        return True if at <= gone else (False if at[:2] > gone[:2] else None)
    return at < gone


def nearest(name: str) -> str | None:
    """The real variable that a misspelt name most likely means, by edit distance, or by one word left out; None when
    none is near."""
    known = lookup(name)
    if known is not None:
        return known.replaced_by or (name if known.vendor != "nobody" else None)
    if not name.upper().startswith(_FAMILIES):
        return None
    most = 1 + len(name) // 8
    best = min(
        (
            (distance(name.upper(), real.name, most), real.gone is not None, real.name)
            for real in variables().values()
            if real.vendor != "nobody" and abs(len(real.name) - len(name)) <= most
        ),
        default=None,
    )
    if best is None or best[0] > most:
        return _longer_by_a_word(name.upper())
    return best[2]


def _longer_by_a_word(name: str) -> str | None:
    """`NCCL_IB_GID_INDEX` for `NCCL_GID_INDEX`: the only variable in use that has the same words and one more."""
    words = name.split("_")
    longer = [
        real.name
        for real in variables().values()
        if real.vendor != "nobody" and real.gone is None and len(words) > 2
        if words in _without_a_word(real.name.split("_"))
    ]
    return longer[0] if len(longer) == 1 else None


def _without_a_word(words: list[str]) -> list[list[str]]:
    return [words[:i] + words[i + 1 :] for i in range(1, len(words))]


def distance(one: str, other: str, most: int) -> int:
    """Edits (insert, delete, replace, swap neighbours) from one to the other; `most` + 1 when it is more."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        following = [i]
        for j, b in enumerate(other, 1):
            cost = min(row[j] + 1, following[-1] + 1, row[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            following.append(cost)
        if min(following) > most:
            return most + 1
        before, row = row, following
    return min(row[-1], most + 1)


@lru_cache(maxsize=1024)
def numbers(version: str | None) -> tuple[int, ...]:
    """`2.28.9+cuda13.0` as (2, 28, 9); () where there is none."""
    match = re.search(r"\d+(?:\.\d+)*", version or "")
    return tuple(int(part) for part in match[0].split(".")) if match else ()
