"""Every rule flags each of its bad samples and none of its good ones, and the whole set leaves the good ones alone."""

import pytest

from nccldoctor.lint.engine import check_text
from nccldoctor.lint.rule import Rule
from nccldoctor.lint.rules import rules
from nccldoctor.model.finding import Confidence, Severity

_BAD = [pytest.param(r, t, id=f"{r.code}-{c}") for r in rules() for c, t in r.flags.items()]
_GOOD = [pytest.param(r, t, id=f"{r.code}-{c}") for r in rules() for c, t in r.passes.items()]


def test_there_are_28_in_order() -> None:
    assert [r.code for r in rules()] == [f"CODE{n:02}" for n in range(1, 29)]
    assert len({r.name for r in rules()}) == 28


@pytest.mark.parametrize(("rule", "text"), _BAD)
def test_flags(rule: Rule, text: str) -> None:
    found = check_text("train.py", text, [rule])
    assert found
    assert all(c.finding.code == rule.code and c.finding.evidence for c in found)


@pytest.mark.parametrize(("rule", "text"), _GOOD)
def test_passes(rule: Rule, text: str) -> None:
    assert check_text("train.py", text, [rule]) == []


@pytest.mark.parametrize("rule", [pytest.param(r, id=r.code) for r in rules()])
def test_says_what_it_is_and_what_to_do(rule: Rule) -> None:
    assert rule.remedy and rule.flags and rule.passes
    assert len(rule.documentation.split()) > 25
    assert rule.summary.endswith((".", ":"))


def test_a_sample_with_one_mistake_is_not_shouted_at_by_others() -> None:
    for rule in rules():
        for text in rule.flags.values():
            for checked in check_text("train.py", text):
                finding = checked.finding
                if finding.code != rule.code and finding.severity is Severity.ERROR:
                    assert finding.confidence is not Confidence.LOW
