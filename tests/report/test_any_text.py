"""Whatever a log says, the page keeps its structure, the ticket keeps its markup, the terminal its peace."""

import io
import re
from html.parser import HTMLParser
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from nccldoctor.report.html import render as to_html
from nccldoctor.report.json import dumps
from nccldoctor.report.markdown import render as to_markdown
from nccldoctor.report.redact import redact
from nccldoctor.report.terminal import show

_NASTY = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="<>\"'&`|*_[]()!#~\\/=-{}%\x1b\x00\u202e \n", max_size=60),
    st.sampled_from(["</details>", "<!--", "]]>", "{{x}}", "javascript:a", "[a](b)", "&lt;"]),
)
_RELAXED = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
_OURS = {"<details>", "</details>", "<summary>", "</summary>", "<b>", "</b>", "<sub>", "</sub>"}


class _Structure(HTMLParser):
    """The order of elements, without their text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_comment(self, data: str) -> None:
        self.tags.append("comment")


def _structure(page: str) -> list[str]:
    parser = _Structure()
    parser.feed(page)
    return [t for t in parser.tags if t not in ("mark", "code", "p", "span", "path", "text", "g")]


@_RELAXED
@given(word=_NASTY)
def test_page_keeps_its_structure(make_report: Any, word: str) -> None:
    page = to_html(make_report(2, 2, word))
    page.encode()
    assert set(_structure(page)) == set(_structure(to_html(make_report(2, 2))))
    assert _structure(page).count("script") == 1


@_RELAXED
@given(word=_NASTY)
def test_ticket_keeps_its_markup(make_report: Any, word: str) -> None:
    text = to_markdown(make_report(2, 2, word))
    flat = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        flat += [token, *(token.children or [])]
    html = " ".join(t.content for t in flat if t.type in ("html_block", "html_inline"))
    assert set(re.findall(r"<[^>]*>", html)) <= _OURS
    assert not [t for t in flat if t.type in ("image", "link_open")]
    assert sum(t.type == "table_open" for t in flat) == 1


@_RELAXED
@given(word=_NASTY)
def test_terminal_and_json_stay_whole(make_report: Any, word: str) -> None:
    report = make_report(2, 2, word)
    out = io.StringIO()
    show(report, None, Console(file=out, width=60, force_terminal=False))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", out.getvalue())
    dumps(redact(report)).encode()
