"""Report → the same report with pseudonyms for hosts, addresses, users, paths, pods and job names; equal stays equal."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from nccldoctor.model.finding import Finding
from nccldoctor.model.report import Report
from nccldoctor.model.source import Line
from nccldoctor.report.pseudonyms import Pseudonyms

_KEYED_BY_LOG = frozenset({"values", "networks", "stages", "by_op", "clocks"})


def redact(report: Report, names: Pseudonyms | None = None) -> Report:
    """The redacted report. Its `jobs` are empty: outputs read `facts`.

    Reports that are redacted with the same `names` have the same pseudonyms for the same things.
    """
    return redact_with_key(report, names)[0]


def redact_with_key(
    report: Report, names: Pseudonyms | None = None
) -> tuple[Report, dict[str, str]]:
    """The redacted report, and pseudonym → original, to be kept at home."""
    names = names or Pseudonyms()
    _collect(report, names)
    hide = names.hide
    verdict = report.verdict
    hidden = replace(
        report,
        verdict=replace(
            verdict,
            headline=hide(verdict.headline),
            hosts=tuple(map(hide, verdict.hosts)),
            next=tuple(map(hide, verdict.next)),
        ),
        findings=tuple(_finding(f, hide) for f in report.findings),
        not_checked=tuple(
            replace(n, because=hide(n.because), turn_on=hide(n.turn_on)) for n in report.not_checked
        ),
        jobs=(),
        facts=tuple(_walk(facts, hide) for facts in report.facts),
        coverage=replace(
            report.coverage,
            unknown=tuple(
                replace(u, shape=hide(u.shape), first=_line(u.first, hide))
                for u in report.coverage.unknown
            ),
        ),
        inputs=tuple(replace(s, path=hide(s.path), note=hide(s.note)) for s in report.inputs),
        notes=tuple(map(hide, report.notes)),
    )
    return hidden, names.key()


def _collect(report: Report, names: Pseudonyms) -> None:
    for facts in report.facts:
        for host in facts.get("hosts", ()):
            names.learn_host(host["name"])
        for rank in facts.get("ranks", ()):
            names.learn_host(rank["host"] or "")
        for variable in facts.get("environment", ()):
            for value in variable["values"]:
                names.learn_variable(variable["name"], value)
    for host in (*report.verdict.hosts, *(h for f in report.findings for h in f.hosts)):
        names.learn_host(host)
    for text in _texts(report):
        names.learn_text(text)
    for source in report.inputs:
        names.learn_path(source.path)


def _texts(report: Report) -> Iterator[str]:
    yield report.verdict.headline
    for finding in report.findings:
        yield finding.title
        yield finding.explanation
        for line in finding.evidence:
            yield line.text
            yield line.file
    for unknown in report.coverage.unknown:
        yield unknown.first.text
    for source in report.inputs:
        yield source.path
        yield source.note
    for facts in report.facts:
        yield from _strings(facts)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)


def _finding(finding: Finding, hide: Callable[[str], str]) -> Finding:
    return replace(
        finding,
        title=hide(finding.title),
        explanation=hide(finding.explanation),
        remedy=tuple(map(hide, finding.remedy)),
        hosts=tuple(map(hide, finding.hosts)),
        evidence=tuple(_line(line, hide) for line in finding.evidence),
    )


def _line(line: Line, hide: Callable[[str], str]) -> Line:
    return Line(hide(line.file), line.number, hide(line.text))


def _walk(value: Any, hide: Callable[[str], str], of_log: bool = False) -> Any:
    """`of_log`: the keys of this mapping are words of a log too, not names of our schema."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {
            hide(key) if of_log else key: _walk(inner, hide, key in _KEYED_BY_LOG)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_walk(inner, hide) for inner in value]
    return value
