"""No text lets a regular expression run for long: each is tried on texts made from the expression itself.

Expressions that see raw text must be linear, so twice the text may take twice the time. Those of log patterns see
4,096 characters of a message at most, and there must not be worse than quadratic. None may be exponential.
"""

import importlib
import inspect
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nccldoctor
from nccldoctor.parse import patterns
from nccldoctor.parse.pattern import LONGEST_MESSAGE
from tests.attacks import attacks

Run = Callable[[Any], Any]
"""`search` or `match` of an expression."""

FEW = 24
"""Repetitions after which an exponential expression has taken a million steps, and any other a few thousand."""

WORTH_JUDGING = 0.05
"""Seconds of this thread below which a ratio says nothing."""


def _modules() -> Iterator[str]:
    for module in pkgutil.walk_packages(nccldoctor.__path__, "nccldoctor."):
        if not any(word in module.name for word in ("inject", "__main__", "worker")):
            yield module.name


def _expressions() -> dict[str, Run]:
    """How each compiled expression that a module holds is run, in its tuples, lists and dicts too, by name.

    Those in lists, and those that the module runs with nothing else, are run with `match`, the others with `search`.
    """
    found: dict[re.Pattern[Any], tuple[str, Run]] = {}

    def take(name: str, value: object, search: bool) -> None:
        if isinstance(value, re.Pattern):
            found.setdefault(value, (name, value.search if search else value.match))
        elif isinstance(value, dict):
            take(name, [*value, *value.values()], False)
        elif isinstance(value, (list, tuple)):
            for item in value:
                take(name, item, False)

    for module in _modules():
        loaded = importlib.import_module(module)
        source = inspect.getsource(loaded)
        for name, value in vars(loaded).items():
            uses = set(re.findall(rf"\b{name}\.(\w+)\(", source))
            take(f"{module}.{name}", value, not uses or not uses <= {"match", "fullmatch"})
    return {f"{name}: {regex.pattern!r}": run for regex, (name, run) in found.items()}


def _seconds(run: Run, head: str, pump: str, size: int) -> float:
    text = head + pump * max(1, size // len(pump)) + "\x00"
    data = text.encode("latin-1", "replace") if isinstance(_regex(run).pattern, bytes) else text
    began = time.thread_time()
    run(data)
    return time.thread_time() - began


def _regex(run: Run) -> "re.Pattern[Any]":
    """The expression whose method this is."""
    regex: re.Pattern[Any] = run.__self__  # type: ignore[attr-defined]
    return regex


def _too_slow(run: Run, most: int, growth: float) -> str:
    """The first text, in words, with which the expression grows faster than it may; empty when there is none."""
    for head, pump in attacks(_regex(run)):
        said = f"{head[:60]!r} and many {pump[:60]!r}"
        for count in (FEW // 2, FEW * 3 // 4, FEW):
            if _seconds(run, head, pump, count * len(pump)) > WORTH_JUDGING:
                return said
        size = most // 32 if _seconds(run, head, pump, most // 32) > 0.001 else most // 2
        while size * 2 <= most:
            once = _seconds(run, head, pump, size)
            twice = _seconds(run, head, pump, size * 2) if once > WORTH_JUDGING / growth else 0.0
            if twice > max(WORTH_JUDGING, growth * once):
                once = max(once, _seconds(run, head, pump, size))
                twice = min(twice, _seconds(run, head, pump, size * 2))
                if twice > growth * once:
                    return said
            size *= 2
    return ""


@pytest.mark.timeout(600)
def test_expressions_on_raw_text_are_linear() -> None:
    expressions = _expressions()
    assert len(expressions) > 100
    slow = {name: _too_slow(run, 100_000, 3.2) for name, run in expressions.items()}
    assert not [f"{name} on {said}" for name, said in slow.items() if said]


@pytest.mark.parametrize("which", ["NCCL", "TEXT"])
def test_log_patterns_on_a_message_are_at_most_quadratic(which: str) -> None:
    regexes = [re.compile(pattern.regex) for pattern in getattr(patterns, which)]
    slow = {regex.pattern: _too_slow(regex.search, LONGEST_MESSAGE, 5.5) for regex in regexes}
    assert not [f"{name} on {said}" for name, said in slow.items() if said]
