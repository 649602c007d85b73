"""How each rank stands, by the findings that name it: the colour of its cell in every picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STATES = {
    "bad": "named as the cause",
    "silent": "nothing heard of it",
    "hit": "affected",
    "warn": "has a warning",
    "ok": "nothing found",
}
SIGNS = {"bad": "✕", "silent": "┄", "hit": "–", "warn": "!", "ok": ""}


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of one rank, and the code of the finding that says so."""

    state: str
    code: str | None = None


def standings(
    facts: Mapping[str, Any], findings: Sequence[Mapping[str, Any]]
) -> dict[int, Standing]:
    """Global rank → standing; the first finding that names a rank decides, a cause before a consequence."""
    order = list(STATES)
    result: dict[int, Standing] = {}
    for entry in facts["ranks"]:
        if entry["rank"] is not None:
            result[entry["rank"]] = Standing("ok" if entry["heard"] else "silent")
    for finding in findings:
        state = _state(finding)
        for rank in finding["ranks"]:
            known = result.get(rank)
            if state and known and order.index(state) < order.index(known.state):
                result[rank] = Standing(state, finding["code"])
    return result


def _state(finding: Mapping[str, Any]) -> str | None:
    if finding["severity"] == "note":
        return None
    if finding["severity"] == "warning":
        return "warn"
    return "hit" if finding["role"] == "consequence" else "bad"


def by_state(standing: Mapping[int, Standing]) -> list[tuple[str, str, str, list[int]]]:
    """(state, its sign, its words, ranks), gravest first, only states that occur."""
    return [
        (state, SIGNS[state], words, ranks)
        for state, words in STATES.items()
        if (ranks := sorted(r for r, s in standing.items() if s.state == state))
    ]
