"""Lines of evidence as the page shows them: the header dimmed, the decisive words marked, nothing trusted."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from nccldoctor.report.words import harmless

MOST_LINES, _CHARACTERS = 16, 700
_HEADER = re.compile(
    r"^(?:[^\n]{0,120}? )?[\w.\-]{1,80}:\d{1,8}:\d{1,8} (?:\[-?\d{1,4}\] )?(?:\S{1,120}:\d{1,6} )?NCCL [A-Z]{4,5} "
)
_TELLING = re.compile(r"[A-Za-z0-9_./\-]*[A-Z0-9_][A-Za-z0-9_./\-]*")
_TICKS = re.compile(r"`([^`\n]{1,300})`")


def shown_lines(finding: Mapping[str, Any], most: int) -> list[dict[str, Any]]:
    """The finding's first lines, each with its text as markup."""
    decisive = _decisive(finding["title"])
    return [
        {"file": line["file"], "line": line["line"], "text": _marked(line["text"], decisive)}
        for line in finding["evidence"][:most]
    ]


def _decisive(title: str) -> re.Pattern[str] | None:
    """Names and numbers of the title that are worth finding again in the line."""
    words = {w.strip("./-") for w in _TELLING.findall(title[:400])}
    words = {w for w in words if len(w) > 2 and w.lower() not in ("rank", "ranks", "nccl")}
    if not words:
        return None
    ordered = sorted(words, key=lambda w: (-len(w), w))
    return re.compile(r"(?<![\w])(" + "|".join(map(re.escape, ordered)) + r")(?![\w])", re.I)


def _marked(text: str, decisive: re.Pattern[str] | None) -> Markup:
    text = harmless(text.replace("\t", "    "))
    cut = text[:_CHARACTERS]
    header = _HEADER.match(cut)
    start = header.end() if header else 0
    body = Markup("")
    if header:
        body += Markup("<span class=dim>") + escape(cut[:start]) + Markup("</span>")
    for piece, hit in _pieces(cut[start:], decisive):
        body += Markup("<mark>") + escape(piece) + Markup("</mark>") if hit else escape(piece)
    if len(text) > _CHARACTERS:
        body += Markup(f" <span class=dim>… {len(text) - _CHARACTERS} characters more</span>")
    return body


def _pieces(text: str, decisive: re.Pattern[str] | None) -> Iterable[tuple[str, bool]]:
    parts: Sequence[str] = decisive.split(text) if decisive else [text]
    return [(part, index % 2 == 1) for index, part in enumerate(parts) if part]


def prose(text: str) -> Markup:
    """Paragraphs and lists of a diagnosis; words in backticks become code."""
    blocks = [b for b in re.split(r"\n[ \t]*\n", harmless(text)[:6000].strip()) if b.strip()]
    return Markup("").join(Markup(f"<p>{inline(' '.join(block.split()))}</p>") for block in blocks)


def inline(text: str) -> Markup:
    """Escaped text; words in backticks become code."""
    parts = _TICKS.split(harmless(text))
    return Markup("").join(
        Markup("<code>") + escape(part) + Markup("</code>") if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )
