"""Report → Markdown that a GitHub, GitLab or Jira ticket shows as meant: verdict, table, folded evidence, under 60 kB."""

import re
from collections.abc import Iterable, Sequence

from nccldoctor import __version__
from nccldoctor.model.finding import Finding
from nccldoctor.model.report import Report
from nccldoctor.report.places import common_folder, place
from nccldoctor.report.proof import decisive, proof, unread_said
from nccldoctor.report.steps import step
from nccldoctor.report.summary import key_facts, understood
from nccldoctor.report.words import harmless, listed, plural, ranks_said

LIMIT_BYTES = 60_000
_MARKS = {"healthy": "✅", "degraded": "⚠️", "failed": "❌", "hung": "⏸️", "unknown": "❔"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$@])")
_LINE_CHARACTERS = 400


def render(report: Report) -> str:
    """The ticket's text. Findings that do not fit are counted, not shown."""
    head = [*_verdict(report), *_table(report.findings)]
    tail = _tail(report)
    room = LIMIT_BYTES - _bytes(head) - _bytes(tail) - 200
    folder = common_folder(report)
    body: list[str] = []
    for number, finding in enumerate(report.findings):
        block = _folded(finding, folder)
        room -= _bytes(block)
        if room < 0:
            body += [f"… and {plural(len(report.findings) - number, 'finding')} more.", ""]
            break
        body += block
    return "\n".join([*head, *body, *tail]) + "\n"


def _verdict(report: Report) -> list[str]:
    verdict = report.verdict
    status = verdict.status.value
    code = f" · `{verdict.code}`" if verdict.code else ""
    sure = f" · confidence: {verdict.confidence.value}" if verdict.confidence else ""
    lines = [f"## {_MARKS[status]} {status.upper()}: {text(verdict.headline)}", ""]
    who = ", ".join(filter(None, [ranks_said(verdict.ranks), listed(list(verdict.hosts))]))
    lines += [f"{text(who)}{code}{sure}".removeprefix(" · "), ""] if who or code or sure else []
    if top := decisive(report):
        folder = common_folder(report)
        shown = [f"{place(line, folder)}: {_cut(line.text)}" for line in proof(top)]
        lines += ["**Proof**", "", *(f"- {_code(line)}" for line in shown), ""]
    if verdict.next:
        lines += ["**Do this next**", ""]
        lines += [f"{n}. {_step(words)}" for n, words in enumerate(verdict.next, 1)]
        lines.append("")
    told = " · ".join(f"{name}: {text(value)}" for name, value in key_facts(report))
    lines += [told, ""] if told else []
    return [*lines, text(unread_said(report)), ""] if unread_said(report) else lines


def _table(findings: Sequence[Finding]) -> list[str]:
    if not findings:
        return []
    shown = findings[:40]
    rows = [
        f"| {f.code} | {f.severity.value} | {f.confidence.value} | {text(f.title[:300])} |"
        for f in shown
    ]
    more = [f"| | | | … {len(findings) - 40} more |"] if len(findings) > 40 else []
    return ["| code | severity | confidence | finding |", "|---|---|---|---|", *rows, *more, ""]


def _folded(finding: Finding, folder: str) -> list[str]:
    evidence = [
        f"{place(line, folder)}: {_cut(harmless(line.text))}" for line in finding.evidence[:12]
    ]
    if len(finding.evidence) > 12:
        evidence.append(f"… {len(finding.evidence) - 12} lines more")
    fence = _fence(evidence)
    title = _html(finding.title[:300])
    return [
        f"<details><summary><b>{finding.code}</b> {finding.name}: {title}</summary>",
        "",
        text(finding.explanation[:4000]),
        "",
        *([f"- {_step(words)}" for words in finding.remedy[:8]] + [""] if finding.remedy else []),
        *(["Follows from it: " + ", ".join(finding.consequences), ""] * bool(finding.consequences)),
        fence,
        *evidence,
        fence,
        "",
        "</details>",
        "",
    ]


def _tail(report: Report) -> list[str]:
    lines = []
    if report.not_checked:
        lines += [
            "<details><summary>Not checked: "
            f"{plural(len(report.not_checked), 'diagnosis', 'diagnoses')}</summary>",
            "",
        ]
        by: dict[tuple[str, str], list[str]] = {}
        for n in report.not_checked:
            by.setdefault((n.because, n.turn_on), []).append(n.code)
        lines += [
            f"- {', '.join(codes)}: {text(because)}. Turn on: {_step(turn_on)}"
            for (because, turn_on), codes in sorted(by.items())[:40]
        ]
        lines += ["", "</details>", ""]
    c = report.coverage
    lines.append(
        f"<sub>nccldoctor {__version__} · {plural(len(report.inputs), 'input')}, "
        f"{plural(c.lines, 'line')}{'; ' if c.records else ''}{understood(c)}</sub>"
    )
    return lines


def text(words: str) -> str:
    """Words as Markdown text: nothing in them is markup, a mention or a link."""
    return " ".join(_SPECIAL.sub(r"\\\1", harmless(words)).replace("://", ":\u200b//").split())


def _step(words: str) -> str:
    """A command as code with its comment behind it; advice as text, with its own code."""
    found = step(words)
    if found.command:
        return _code(found.words) + (f" {_ticked(found.why)}" if found.why else "")
    return _ticked(found.words)


def _ticked(words: str) -> str:
    """Text in which words between backticks stay code."""
    parts = words.split("`")
    if len(parts) % 2 == 0:
        return text(words)
    return "".join(
        _code(part) if number % 2 else _spaced(part) for number, part in enumerate(parts) if part
    )


def _spaced(words: str) -> str:
    """`text` that keeps the blanks at its ends."""
    left, right = words[:1].isspace(), words[-1:].isspace()
    return " " * left + text(words) + " " * (right and bool(words.strip()))


def _html(words: str) -> str:
    words = " ".join(harmless(words).split())
    return (
        words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")
    )


def _code(words: str) -> str:
    """An inline code span that holds any text."""
    words = " ".join(harmless(words).split())
    ticks = "`" * (max((len(run) for run in re.findall("`+", words)), default=0) + 1)
    pad = " " if "`" in words else ""
    return f"{ticks}{pad}{words}{pad}{ticks}"


def _fence(lines: Iterable[str]) -> str:
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    return "`" * max(3, longest + 1)


def _cut(line: str) -> str:
    line = line.replace("\n", " ")
    return line if len(line) <= _LINE_CHARACTERS else line[:_LINE_CHARACTERS] + " …"


def _bytes(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)
