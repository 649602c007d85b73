"""`--fail-on`: from which severity on a command exits with 1."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
_SEVERITIES = ("error", "warning", "note")


def fail_on_option(
    words: str = "Exit with 1 from this severity on.", default: str | None = "error"
) -> Callable[[F], F]:
    """The option; `default` None lets a configuration decide, and `words` say then what it is."""
    return click.option(
        "--fail-on",
        type=click.Choice([*_SEVERITIES, "never"]),
        default=default,
        show_default=default is not None,
        help=words,
    )


def fails(severities: Iterable[str], fail_on: str) -> bool:
    """Is one of these at or above `fail_on`?"""
    if fail_on == "never":
        return False
    grave = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
    return any(severity in grave for severity in severities)
