"""Report → the short summary on a terminal, as wide as it is; plain where it is no terminal or NO_COLOR is set.

Nothing stands in a box, and no command is broken over lines: both can be pasted as they are.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from nccldoctor.model.finding import Finding, Role, Severity
from nccldoctor.model.report import Report, Status
from nccldoctor.model.source import Kind
from nccldoctor.report.places import common_folder, place
from nccldoctor.report.proof import decisive, proof, reason, unread, unread_said
from nccldoctor.report.steps import step
from nccldoctor.report.summary import key_facts, understood
from nccldoctor.report.words import harmless, listed, plural

_STYLES = {
    Status.HEALTHY: "green",
    Status.DEGRADED: "yellow",
    Status.FAILED: "red",
    Status.HUNG: "red",
    Status.UNKNOWN: "cyan",
}
_SEVERITIES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_MOST, _CHARACTERS = 12, 240


def show(report: Report, written: Path | None = None, console: Console | None = None) -> None:
    """Prints verdict, proof, next steps and the other findings; `written` is where the HTML report lies."""
    console = console or Console(highlight=False)
    for part in _parts(report, written):
        # commands and places are left to the terminal to wrap, so that they can be pasted whole
        console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))


def _parts(report: Report, written: Path | None) -> Iterator[RenderableType]:
    yield from _verdict(report)
    top = decisive(report)
    if top is not None:
        yield from _proof(top)
    if report.verdict.next:
        yield from _next(report.verdict.next)
    yield from _others(report, top)
    yield Text()
    yield from _footer(report, written)


def _verdict(report: Report) -> Iterator[RenderableType]:
    verdict, top = report.verdict, decisive(report)
    style = _STYLES[verdict.status]
    title = Text(verdict.status.value.upper(), style=f"bold {style}")
    yield Rule(title, align="left", style=style)
    yield Text(harmless(verdict.headline), style="bold")
    sure = f"confidence {verdict.confidence.value}" if verdict.confidence else ""
    what = f"{top.code} {top.name}" if top else ""
    more = f"more: nccldoctor explain {top.code}" if top else ""
    if under := " · ".join(part for part in (what, sure, more) if part):
        yield Text(under, style="dim")


def _proof(finding: Finding) -> Iterator[RenderableType]:
    if why := reason(finding):
        yield Text(f"\n{harmless(why)}")
    yield _heading("Proof")
    for line in proof(finding):
        yield _whole(f"  {place(line, '')}", style="cyan")
        text = " ".join(harmless(line.text).split())
        cut = text[:_CHARACTERS] + " …" * (len(text) > _CHARACTERS)
        yield Padding(Text(cut, overflow="fold"), (0, 0, 0, 4))


def _next(steps: Sequence[str]) -> Iterator[RenderableType]:
    yield _heading("Do this next")
    for number, words in enumerate(steps, 1):
        told = step(harmless(words))
        if told.command:
            yield _whole(f"  {number}. {told.words}")
            if told.why:
                yield Padding(Text(f"# {told.why}", style="dim"), (0, 0, 0, 5))
        else:
            hanging = Table.grid(padding=(0, 1, 0, 0))
            hanging.add_row(f"{number}.", Text(told.words))
            yield Padding(hanging, (0, 0, 0, 2))


def _others(report: Report, top: Finding | None) -> Iterator[RenderableType]:
    others = [f for f in report.findings if f is not top]
    loud = [f for f in others if f.severity is not Severity.NOTE]
    notes = [f for f in others if f.severity is Severity.NOTE]
    folder = common_folder(report)
    for title, findings in (
        ("What follows from it", [f for f in loud if f.role is Role.CONSEQUENCE]),
        ("Also found", [f for f in loud if f.role is not Role.CONSEQUENCE]),
        ("Worth knowing", notes if top is None else []),
    ):
        if findings:
            yield _heading(title)
            yield _table(findings, folder)
    if notes and top is not None:
        counts = Counter(f.code for f in notes)
        codes = [code + f" ({n} times)" * (n > 1) for code, n in counts.items()]
        yield Text(f"\n{plural(len(notes), 'note')} in the report: {listed(codes, 8)}", style="dim")


def _table(findings: Sequence[Finding], folder: str) -> RenderableType:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings[:_MOST]:
        words = Text(harmless(finding.title))
        words.append(f"\n{place(finding.evidence[0], folder)}", style="dim")
        severity = Text(finding.severity.value, style=_SEVERITIES[finding.severity])
        table.add_row(Text(finding.code, style="bold"), severity, words)
    if len(findings) > _MOST:
        table.add_row("", "", f"… {len(findings) - _MOST} more in the report")
    return Padding(table, (0, 0, 0, 2))


def _footer(report: Report, written: Path | None) -> Iterator[RenderableType]:
    if told := " · ".join(f"{name} {harmless(value)}" for name, value in key_facts(report)):
        yield Text(told, style="dim")
    coverage = report.coverage
    files = len(report.inputs) - len(unread(report))
    empty = sum(source.kind is Kind.EMPTY for source in report.inputs)
    read = f"Read {plural(files, 'file')} ({plural(coverage.lines, 'line')}{f', {empty} empty' if empty else ''})"
    yield Text("; ".join(filter(None, (read, understood(coverage)))), style="dim")
    if lost := unread_said(report):
        yield Text(lost, style="yellow")
    if report.not_checked:
        number = plural(len(report.not_checked), "diagnosis", "diagnoses")
        yield Text(
            f"{number} had nothing to look at; the report says how to switch that on", style="dim"
        )
    if written is not None:
        yield _whole(f"Report: {written}")


def _heading(words: str) -> Text:
    return Text(f"\n{words}", style="bold")


def _whole(words: str, style: str = "") -> Text:
    """A line that must not be broken."""
    return Text(words, style=style, no_wrap=True, overflow="ignore")
