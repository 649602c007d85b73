"""A comparison → terminal, HTML, JSON, Markdown, in the manner of the reports."""

import json
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nccldoctor import __version__
from nccldoctor.report.compare import ABSENT, Comparison
from nccldoctor.report.html import render_page
from nccldoctor.report.markdown import LIMIT_BYTES, text
from nccldoctor.report.words import encodable, harmless, plural


def headline(comparison: Comparison) -> str:
    """One sentence: how much changed, and the gravest new finding."""
    count = sum(len(s.changes) for s in comparison.sections)
    if not count:
        return "Nothing that the reports tell has changed"
    new = comparison.new_findings
    told = f"{plural(count, 'difference')} in {plural(len(comparison.sections), 'section')}"
    return f"{told}; new: {new[0]['code']}, {new[0]['title']}" if new else told


def dumps(comparison: Comparison) -> str:
    """The comparison as JSON: `changes` per section, and both verdicts."""
    data: dict[str, Any] = {
        "schema": 1,
        "tool": {"name": "nccldoctor", "version": __version__},
        "headline": headline(comparison),
        "before": {"name": comparison.names[0], "verdict": comparison.before["verdict"]},
        "after": {"name": comparison.names[1], "verdict": comparison.after["verdict"]},
        "sections": [asdict(section) for section in comparison.sections],
        "new_findings": list(comparison.new_findings),
    }
    return encodable(json.dumps(data, ensure_ascii=False, indent=1)) + "\n"


def render(comparison: Comparison) -> str:
    """The comparison as one HTML file, as self-contained as the report."""
    return render_page(
        "diff.html.j2",
        {
            "headline": headline(comparison),
            "names": comparison.names,
            "verdicts": (comparison.before["verdict"], comparison.after["verdict"]),
            "sections": comparison.sections,
            "absent": ABSENT,
        },
    )


def markdown(comparison: Comparison) -> str:
    """The comparison as Markdown tables, under 60 kB."""
    a, b = (text(name) for name in comparison.names)
    lines = [f"## {text(headline(comparison))}", "", f"From {a} to {b}.", ""]
    length = 0
    for section in comparison.sections:
        lines += [f"### {text(section.title)}", "", f"| what | {a} | {b} |", "|---|---|---|"]
        for change in section.changes:
            row = f"| {text(change.what)} | {text(change.before[:600])} | {text(change.after[:600])} |"
            length += len(row.encode()) + 1
            if length > LIMIT_BYTES - 8000:
                return "\n".join([*lines, "", "… more in the JSON or HTML comparison.", ""])
            lines.append(row)
        lines.append("")
    return "\n".join(lines)


def show(comparison: Comparison, console: Console | None = None) -> None:
    """Prints the comparison on the terminal."""
    console = console or Console(highlight=False)
    console.print(Text(harmless(headline(comparison)), style="bold"))
    for section in comparison.sections:
        table = Table(title=section.title, title_justify="left", expand=False, box=None)
        table.add_column("", style="bold", overflow="fold")
        for name in comparison.names:
            table.add_column(Text(harmless(name)), overflow="fold")
        for change in section.changes:
            table.add_row(
                *(Text(harmless(cell)) for cell in (change.what, change.before, change.after))
            )
        console.print()
        console.print(table)
