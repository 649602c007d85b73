"""Log text is a stranger's text: no line of it runs for ever, escapes, or becomes markup."""

import io
import re
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from nccldoctor import doctor
from nccldoctor.cli import main
from nccldoctor.errors import DoctorError
from nccldoctor.model.source import Kind, Source
from nccldoctor.parse import logs, patterns
from nccldoctor.report import to_html, to_json, to_markdown
from nccldoctor.report.atomic import write_text

LENGTH = 100_000
FILLS = ("a", " ", "0", "[", "1 ", "0x", "a:1:1 [0] ", "-1/", "(", ", ")
CORES_SECONDS = 2.0
"""For one line of 100 kB. A linear pattern takes milliseconds, a quadratic one minutes."""


@pytest.mark.parametrize("which", ["NCCL", "TEXT"])
def test_no_pattern_runs_for_ever(which: str) -> None:
    head = "gpu-1:71:71 [0] NCCL INFO " if which == "NCCL" else ""
    for number, pattern in enumerate(getattr(patterns, which)):
        sample = next(iter(pattern.samples.values()))
        fill = FILLS[number % len(FILLS)]
        _read_in_time(head + _grown(sample, pattern.anchor, fill), f"{pattern.regex} on {fill!r}")


@pytest.mark.parametrize("fill", FILLS)
def test_prefixes_and_headers_are_found_in_time(fill: str) -> None:
    text = fill * (LENGTH // len(fill) // 2)
    _read_in_time(f"{text} NCCL INFO {text}", fill)
    _read_in_time(f"[rank0]:{text}[E1130 04:00:00.1 x.cpp:1] {text}", fill)
    _read_in_time(f"{text} NCCL INFO AllReduce: opCount {text}", fill)


def _grown(sample: str, anchor: str, fill: str) -> str:
    """The sample with a great deal of `fill` behind its anchor."""
    at = sample.find(anchor) + len(anchor)
    return sample[:at] + fill * (LENGTH // len(fill)) + sample[at:]


def _read_in_time(text: str, what: str) -> None:
    began = time.process_time()
    logs.read(Source("x", Kind.LOG, len(text)), io.BytesIO(text.encode() + b"\n"))
    assert time.process_time() - began < CORES_SECONDS, what


HOSTILE = (
    "gpu-1:71:71 [0] init.cc:904 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60 "
    "<script>alert(1)</script> {{ 7*7 }} \x1b]0;owned\x07\x1b[2J ``` </details> | \u202e ![x](http://evil/)\n"
)


@pytest.fixture
def report(tmp_path: Path) -> doctor.Report:
    (tmp_path / "a\nb\x1b[31m.log").write_text(HOSTILE)
    return doctor.examine([str(tmp_path)])


def test_html_shows_it_as_text(report: doctor.Report) -> None:
    html = to_html(report)
    assert "<script>alert" not in html and "&lt;script&gt;alert" in html
    assert "{{ 7*7 }}" in html and "\x1b" not in html


def test_markdown_keeps_it_as_text(report: doctor.Report) -> None:
    """Read as a ticket system reads it: nothing of the log is markup, a link, or a picture."""
    from markdown_it import MarkdownIt

    markdown = to_markdown(report)
    assert not any(c in markdown for c in ("\x1b", "\x07", "\u202e"))
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    parts = [part for token in tokens for part in (token, *(token.children or ()))]
    assert any("<script>alert(1)</script>" in part.content for part in parts)
    for part in parts:
        if part.type in ("html_block", "html_inline"):
            assert re.fullmatch(r"(</?(details|summary|sub|b|br)( open)?>|[^<]|\s)*", part.content)
        assert part.type != "image"
        assert "evil" not in str(part.attrs.get("href", ""))


def test_json_survives_it(report: doctor.Report) -> None:
    import json

    assert json.loads(to_json(report))["verdict"]["code"] == "INIT02"


def test_terminal_gets_no_escapes(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(HOSTILE)
    result = CliRunner().invoke(main, ["parse", str(tmp_path), "--no-html"])
    assert (
        "\x1b]0" not in result.output
        and "\x07" not in result.output
        and "\x1b[2J" not in result.output
    )


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("the old one")
    with pytest.raises(DoctorError, match="Cannot write"):
        write_text(tmp_path / "no" / "such" / "folder" / "report.html", "new")
    write_text(target, "the new one")
    assert target.read_text() == "the new one"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
