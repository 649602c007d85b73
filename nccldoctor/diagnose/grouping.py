"""How diagnoses put like things together: one finding for all events with one reason, device or bus."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Any)


def apart(things: Iterable[T], by: Callable[[T], K]) -> dict[K, list[T]]:
    """Those with the same key together, in their order; the keys sorted."""
    found: dict[K, list[T]] = {}
    for thing in things:
        found.setdefault(by(thing), []).append(thing)
    return dict(sorted(found.items()))
