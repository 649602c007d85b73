"""The lint rules, found by walking this folder: put a file into it, and it is there."""

from functools import lru_cache

from nccldoctor.lint.rule import Rule
from nccldoctor.model.shelf import pick, shelf


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """All rules, by code."""
    return shelf(Rule, __name__, __path__)


def rule(code: str) -> Rule | None:
    """The rule with this code or name, whatever its case."""
    return pick(rules(), code)
