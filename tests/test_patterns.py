"""Every pattern matches each of its samples, and no other pattern takes them away."""

import pytest

from nccldoctor.model.source import NOBODY, Line
from nccldoctor.parse import patterns
from nccldoctor.parse.pattern import Matcher, Pattern

_CASES = [
    pytest.param(which, pattern, version, id=f"{which}-{pattern.event.__name__}-{version}-{number}")
    for which in ("NCCL", "TEXT")
    for number, pattern in enumerate(getattr(patterns, which))
    for version in pattern.samples
]


@pytest.fixture(scope="module")
def matchers() -> dict[str, Matcher]:
    return {which: Matcher(getattr(patterns, which)) for which in ("NCCL", "TEXT")}


@pytest.mark.parametrize(("which", "pattern", "version"), _CASES)
def test_sample_becomes_its_event(
    matchers: dict[str, Matcher], which: str, pattern: Pattern, version: str
) -> None:
    text = pattern.samples[version]
    event = matchers[which].match(text, Line("log", 1, text), NOBODY)
    assert type(event) is pattern.event


def test_every_pattern_has_a_sample() -> None:
    assert all(p.samples for p in [*patterns.NCCL, *patterns.TEXT])


def test_foreign_text_is_no_event(matchers: dict[str, Matcher]) -> None:
    for text in ("", "loss 0.31", "Epoch 3: 40%|####", "NCCL is a library", "comm rank nranks"):
        for matcher in matchers.values():
            assert matcher.match(text, Line("log", 1, text), NOBODY) is None
