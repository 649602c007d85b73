"""JSON keeps its schema, Markdown fits a ticket, the terminal stays plain, HTML stays small and inert."""

import io
import json
import re
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console

from nccldoctor.model.digest import Coverage
from nccldoctor.model.report import Report, Status, Verdict
from nccldoctor.model.source import Line
from nccldoctor.report.html import render as to_html
from nccldoctor.report.json import dumps
from nccldoctor.report.markdown import LIMIT_BYTES
from nccldoctor.report.markdown import render as to_markdown
from nccldoctor.report.proof import proof, reason
from nccldoctor.report.steps import step
from nccldoctor.report.terminal import show

HOSTILE = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> </pre></style>{{7*7}} {% raw %} \x1b[31mred\x1b[0m "
    "\u202eevil\u2066 \x00\x07 ]]> --> \ud800 https://evil.example/x `tick` ``` | @team #1 "
)


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads(resources.files("nccldoctor.report").joinpath("schema.json").read_text())


@pytest.mark.parametrize("word", ["", HOSTILE])
def test_json_keeps_its_schema(make_report: Any, schema: Any, word: str) -> None:
    text = dumps(make_report(word=word))
    text.encode()
    data = json.loads(text)
    jsonschema.validate(data, schema)
    assert data["findings"][0]["code"] == data["verdict"]["code"] == "HANG01"


def test_schema_refuses_a_finding_without_evidence(make_report: Any, schema: Any) -> None:
    data = json.loads(dumps(make_report()))
    data["findings"][0]["evidence"] = []
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema)


def test_same_report_gives_the_same_bytes(make_report: Any) -> None:
    for write in (dumps, to_html, to_markdown):
        assert write(make_report()) == write(make_report())


@pytest.mark.parametrize(("size", "per_host", "most"), [(8, 2, 300_000), (1024, 8, 2_000_000)])
def test_html_is_small(make_report: Any, size: int, per_host: int, most: int) -> None:
    assert len(to_html(make_report(size, per_host)).encode()) < most


def test_html_names_nothing_outside(make_report: Any) -> None:
    page = to_html(make_report(word=HOSTILE))
    page.encode()
    assert not re.search(
        r"""(?:src|href|action|poster|data)\s*=\s*["']?(?:https?:|//|data:)""", page
    )
    assert not re.search(r"@import|url\(", page)
    assert page.count("<script>") == 1
    assert "<img" not in page
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b\x00\x07]", page)


def test_html_cuts_a_token_of_a_megabyte(make_report: Any) -> None:
    assert len(to_html(make_report(word="A" * 2000)).encode()) < 900_000
    assert "49" not in to_markdown(make_report(word="{{7*7}}"))


@pytest.mark.parametrize("word", ["", HOSTILE, "<b>" * 600])
def test_markdown_fits_a_ticket(make_report: Any, word: str) -> None:
    text = to_markdown(make_report(word=word))
    assert len(text.encode()) < LIMIT_BYTES
    tags = {tag for token in _tokens(text) for tag in re.findall(r"<[^>]*>", _html(token))}
    ours = {"<details>", "</details>", "<summary>", "</summary>", "<b>", "</b>", "<sub>", "</sub>"}
    assert tags <= ours
    assert not [t for t in _tokens(text) if t.type in ("image", "link_open")]


def _tokens(text: str) -> list[Token]:
    flat = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        flat += [token, *(token.children or [])]
    return flat


def _html(token: Token) -> str:
    return token.content if token.type in ("html_block", "html_inline") else ""


def test_markdown_of_very_many_findings_says_what_it_left_out(make_report: Any) -> None:
    report = make_report()
    many = Report(
        report.verdict,
        report.findings * 200,
        report.not_checked,
        (),
        report.facts,
        report.coverage,
        report.inputs,
    )
    text = to_markdown(many)
    assert len(text.encode()) < LIMIT_BYTES
    assert re.search(r"… and \d+ findings more\.", text)


def _shown(report: Report, width: int, terminal: bool, **environment: str) -> str:
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=terminal, highlight=False, _environ=environment
    )
    show(report, Path("r.html"), console)
    return file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_terminal_keeps_to_its_width(make_report: Any, width: int) -> None:
    text = _shown(make_report(word=HOSTILE), width, False)
    told = text.partition("job ")[0].splitlines()
    whole = re.compile(r"  (?:\d\. |logs/)")  # a command or a place, to be pasted
    assert all(len(line) <= width for line in told if not whole.match(line))
    assert "HANG01" in text
    assert "\x1b" not in text


def test_terminal_without_colour(make_report: Any) -> None:
    plain = _shown(make_report(), 80, True, NO_COLOR="1", TERM="xterm")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", plain)


def test_healthy_job_says_what_was_not_checked(make_report: Any) -> None:
    full = make_report()
    report = Report(
        Verdict(Status.HEALTHY, "No fault found in the evidence of 8 ranks on 4 hosts"),
        (),
        full.not_checked,
        (),
        full.facts,
        Coverage(10, 10, 10),
        full.inputs,
    )
    page = to_html(report)
    assert "Healthy" in page
    assert "not the same as health" in page
    assert "No fault found" in to_markdown(report)


@pytest.mark.parametrize(
    ("text", "command", "why"),
    [
        ("export NCCL_DEBUG=INFO  # then again", "export NCCL_DEBUG=INFO", "then again"),
        ("py-spy dump --pid 7", "py-spy dump --pid 7", ""),
        ("dmesg -T | grep -i xid", "dmesg -T | grep -i xid", ""),
        ("nccldoctor probe", "nccldoctor probe", ""),
        ("unset NCCL_ALGO", "unset NCCL_ALGO", ""),
        ("every rank must reach every collective: look for `if rank == 0`", None, ""),
        ("raise the timeout only if the step is long", None, ""),
        ("use one image for all ranks", None, ""),
    ],
)
def test_steps_are_commands_or_advice(text: str, command: str | None, why: str) -> None:
    found = step(text)
    assert found.command is (command is not None)
    assert (found.words, found.why) == (command or text, why)


def test_terminal_shows_the_proof_once_and_commands_whole(make_report: Any) -> None:
    text = _shown(make_report(), 40, False)
    assert text.count("stopped after") == 1
    assert "  logs/nccl_debug_gpu-node-04_1007.log:88\n" in text
    assert "  1. py-spy dump --pid 1007\n" in text
    assert "What follows from it" in text and "HANG04" in text


def test_reason_is_short_and_of_this_case(make_report: Any) -> None:
    finding = make_report().findings[1]
    assert reason(finding) == finding.explanation
    general = replace(finding, explanation="A timeout.\n\nIt names the messenger.")
    assert reason(general) == ""
    long = replace(finding, explanation=("Ranks 0.5 GiB behind wait. " * 30).strip())
    assert reason(long).endswith(".") and len(reason(long)) < 260
    assert reason(replace(finding, explanation="no stop " * 99)) == ("no stop " * 99).strip()


def test_proof_shows_two_writers_of_one_file(make_report: Any) -> None:
    finding = make_report().findings[0]
    lines = [Line("all.log", n, f"h:{n // 3}:1 [0] NCCL INFO x") for n in range(6)]
    assert [line.number for line in proof(replace(finding, evidence=tuple(lines)))] == [0, 3]
    assert len(proof(replace(finding, evidence=tuple(lines[:3])))) == 1
