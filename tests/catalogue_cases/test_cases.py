"""Short logs of every dialect, as data in `cases*.txt`: what each must say, or that it says nothing."""

import re
from collections import Counter
from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.model.finding import Severity

_HEAD = re.compile(r"^=== (?:(?P<how>top|has) (?P<code>[A-Z]+\d+)|quiet) \| (?P<name>.+)$", re.M)


def _cases() -> list[tuple[str, str, str, str]]:
    files = sorted(Path(__file__).parent.glob("cases*.txt"))
    text = "\n".join(file.read_text("utf-8") for file in files)
    heads = list(_HEAD.finditer(text))
    ends = [*(h.start() for h in heads[1:]), len(text)]
    return [
        (h["how"] or "quiet", h["code"] or "", h["name"], text[h.end() + 1 : end].rstrip() + "\n")
        for h, end in zip(heads, ends, strict=True)
    ]


@pytest.mark.parametrize(
    ("how", "code", "log"),
    [pytest.param(h, c, log, id=f"{c or h}-{name}") for h, c, name, log in _cases()],
)
def test_case(how: str, code: str, log: str, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(log)
    report = doctor.examine([str(path)])
    said = [(f.code, f.severity.value, f.title) for f in report.findings]
    if how == "quiet":
        assert not [f for f in report.findings if f.severity is not Severity.NOTE], said
    elif how == "top":
        assert report.verdict.code == code, said
    else:
        assert code in {f.code for f in report.findings}, said


def test_there_are_many_and_their_names_differ() -> None:
    cases = _cases()
    assert len(cases) >= 60
    assert max(Counter((code, name) for _, code, name, _ in cases).values()) == 1
