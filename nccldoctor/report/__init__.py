"""Report in, bytes out: terminal, HTML, JSON, Markdown; pure functions that compute nothing."""

from pathlib import Path

from nccldoctor.model.report import Report


def to_json(report: Report) -> str:
    """The report as JSON of schema 1."""
    from nccldoctor.report.json import dumps

    return dumps(report)


def to_html(report: Report) -> str:
    """The report as one self-contained HTML file."""
    from nccldoctor.report.html import render

    return render(report)


def to_markdown(report: Report) -> str:
    """The report as Markdown for a ticket, under 60 kB."""
    from nccldoctor.report.markdown import render

    return render(report)


def show(report: Report, written: Path | None = None) -> None:
    """Prints the short summary on the terminal; `written` is where the HTML report lies."""
    from nccldoctor.report import terminal

    terminal.show(report, written)
