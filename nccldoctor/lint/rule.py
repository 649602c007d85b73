"""What a lint rule's file declares, and what its check yields.

A rule is a module under `rules/` with these names at its top level:

    docstring    what the mistake is, what it does to a job, and when it is not a mistake
    code         "CODE04"
    name         "collective-under-rank-guard"
    severity     Severity.ERROR
    confidence   how sure a hit of this rule usually is; a hit may say otherwise
    remedy       what to write instead, most useful first
    check        check(script) yields Hit
    flags        {"one line about the case": "a script with the mistake"}
    passes       the same for scripts that must not be flagged
"""

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nccldoctor.model.finding import Confidence, Severity

if TYPE_CHECKING:
    from nccldoctor.lint.script import Script


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces the text between two places; lines count from 1, columns are UTF-8 bytes from 0, as in `ast`."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """One place in a script; what is left out here comes from the rule.

    `also` are further places that prove it; `edits` mend it mechanically, and are empty where that is not safe.
    """

    node: ast.stmt | ast.expr
    title: str
    confidence: Confidence | None = None
    severity: Severity | None = None
    also: tuple[ast.stmt | ast.expr, ...] = ()
    remedy: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One file of `rules/`, read."""

    code: str
    name: str
    severity: Severity
    confidence: Confidence
    remedy: tuple[str, ...]
    documentation: str
    check: Callable[["Script"], Iterable[Hit]]
    flags: Mapping[str, str]
    passes: Mapping[str, str]
    module: str

    @property
    def summary(self) -> str:
        return self.documentation.strip().partition("\n")[0]
