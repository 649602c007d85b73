"""Report → the short summary on a terminal, as wide as it is; plain where it is no terminal or NO_COLOR is set."""

from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from nccldoctor.model.finding import Finding, Severity
from nccldoctor.model.report import Report, Status
from nccldoctor.report.places import common_folder, place
from nccldoctor.report.summary import key_facts
from nccldoctor.report.words import harmless, listed, plural, ranks_said

_STYLES = {
    Status.HEALTHY: "green",
    Status.DEGRADED: "yellow",
    Status.FAILED: "red",
    Status.HUNG: "red",
    Status.UNKNOWN: "cyan",
}
_SEVERITIES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_MOST = 12


def show(report: Report, written: Path | None = None, console: Console | None = None) -> None:
    """Prints verdict, findings and what was not checked; `written` is where the HTML report lies."""
    console = console or Console(highlight=False)
    console.print(_verdict(report))
    if report.findings:
        console.print(_findings(report.findings, common_folder(report)))
    for line in _footer(report, written):
        console.print(line, soft_wrap=True)


def _verdict(report: Report) -> RenderableType:
    verdict = report.verdict
    style = _STYLES[verdict.status]
    parts: list[RenderableType] = [Text(harmless(verdict.headline), style="bold")]
    where = [ranks_said(verdict.ranks), listed(list(verdict.hosts))]
    sure = f"confidence {verdict.confidence.value}" if verdict.confidence else ""
    under = " · ".join(harmless(w) for w in (*where, verdict.code or "", sure) if w)
    if under:
        parts.append(Text(under, style="dim"))
    if verdict.next:
        parts.append(Text("\nNext:"))
        for number, step in enumerate(verdict.next, 1):
            parts.append(Padding(Text(f"{number}. {harmless(step)}"), (0, 0, 0, 1)))
    title = Text(verdict.status.value.upper(), style=f"bold {style}")
    return Panel(Group(*parts), title=title, title_align="left", border_style=style)


def _findings(findings: tuple[Finding, ...], folder: str) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings[:_MOST]:
        style = _SEVERITIES[finding.severity]
        first = finding.evidence[0]
        words = Text(harmless(finding.title))
        words.append(f"\n{place(first, folder)}", style="dim")
        if finding.role.value == "consequence":
            words.append("  follows from the above", style="dim")
        table.add_row(
            Text(finding.code, style="bold"), Text(finding.severity.value, style=style), words
        )
    if len(findings) > _MOST:
        table.add_row("", "", f"… {plural(len(findings) - _MOST, 'finding')} more in the report")
    return table


def _footer(report: Report, written: Path | None) -> list[Text]:
    lines = []
    told = " · ".join(f"{name} {harmless(value)}" for name, value in key_facts(report))
    if told:
        lines.append(Text(told, style="dim"))
    c = report.coverage
    lines.append(
        Text(
            f"{plural(len(report.inputs), 'input')}, {plural(c.lines, 'line')}, "
            f"{c.ratio:.1%} of {plural(c.records, 'NCCL record')} understood; "
            f"{len(report.not_checked)} of the diagnoses not checked for want of evidence",
            style="dim",
        )
    )
    if written is not None:
        lines.append(Text(f"Report: {written}"))
    return lines
