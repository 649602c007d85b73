"""The lint rules, found by walking this folder: put a file into it, and it is there."""

import importlib
import pkgutil
from functools import lru_cache

from nccldoctor.lint.rule import Rule


@lru_cache(maxsize=1)
def rules() -> tuple[Rule, ...]:
    """All rules, by code."""
    found = [_read(module.name) for module in pkgutil.iter_modules(__path__, f"{__name__}.")]
    return tuple(sorted(found, key=lambda rule: rule.code))


def rule(code: str) -> Rule | None:
    """The rule with this code or name, whatever its case."""
    wanted = code.casefold()
    return next((r for r in rules() if wanted in (r.code.casefold(), r.name)), None)


def _read(name: str) -> Rule:
    module = importlib.import_module(name)
    return Rule(
        code=module.code,
        name=module.name,
        severity=module.severity,
        confidence=module.confidence,
        remedy=module.remedy,
        documentation=module.__doc__ or "",
        check=module.check,
        flags=module.flags,
        passes=module.passes,
        module=name,
    )
