"""Runs the rules over files and gives findings; a file that is no Python is told of, and costs nothing else."""

import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from nccldoctor.lint.config import Config, read_config
from nccldoctor.lint.ignores import Ignores
from nccldoctor.lint.notebook import Cells, read_notebook
from nccldoctor.lint.project import Project, files, worth
from nccldoctor.lint.rule import Edit, Hit, Rule
from nccldoctor.lint.rules import rules
from nccldoctor.lint.script import Script
from nccldoctor.model.finding import Confidence, Finding, Role, Severity
from nccldoctor.model.source import Line

_CONFIDENCES = list(Confidence)
_SEVERITIES = list(Severity)


@dataclass(frozen=True, slots=True)
class Checked:
    """A finding with its place: columns count from 1, `cell` is the notebook cell (all cells count from 1)."""

    finding: Finding
    column: int
    end_line: int
    end_column: int
    cell: int | None = None
    edits: tuple[Edit, ...] = ()


@dataclass(slots=True)
class Outcome:
    """What came of a check. `hidden` counts findings below the wanted confidence; `unreadable` says why; `faults` are rules that raised."""

    checked: list[Checked] = field(default_factory=list)
    files: int = 0
    hidden: int = 0
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    faults: list[tuple[str, str]] = field(default_factory=list)


def check_paths(paths: Iterable[str | Path]) -> list[Finding]:
    """Findings in files and folders under the configuration found there; the surest and gravest first.

    Raises DoctorError for a path that does not exist.
    """
    outcome = check(paths)
    return sorted((c.finding for c in outcome.checked), key=_gravity)


def check(paths: Iterable[str | Path], config: Config | None = None) -> Outcome:
    """Findings in the order of files and lines; without `config`, that of the nearest pyproject.toml holds."""
    given = [Path(path) for path in paths]
    if config is None:
        config = read_config(given[0]) if given else Config()
    wanted = [rule for rule in rules() if config.wants(rule.code, rule.name)]
    outcome = Outcome()
    project = Project()
    for path in files(given, config):
        outcome.files += 1
        try:
            found = _check_file(path, project, wanted, outcome.faults)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            outcome.unreadable.append((path.as_posix(), _reason(error)))
            continue
        for checked in found:
            finding = checked.finding
            if config.ignored_in(path, finding.code, finding.name):
                continue
            if _sureness(finding.confidence) > _sureness(config.confidence):
                outcome.hidden += 1
            else:
                outcome.checked.append(checked)
    return outcome


def check_text(path: str, text: str, wanted: Iterable[Rule] | None = None) -> list[Checked]:
    """Findings of every confidence in a script given as text."""
    return _check_script(Script(path, text), None, rules() if wanted is None else wanted)


def _check_file(
    path: Path, project: Project, wanted: Iterable[Rule], faults: list[tuple[str, str]]
) -> list[Checked]:
    content = path.read_bytes()
    if not worth(content):
        return []
    if path.suffix == ".ipynb":
        text, cells = read_notebook(content.decode("utf-8"))
        return _check_script(Script(path.as_posix(), text, project.find), cells, wanted, faults)
    return _check_script(
        Script(path.as_posix(), _decoded(content), project.find), None, wanted, faults
    )


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        encoding, _ = tokenize.detect_encoding(iter(content.splitlines(keepends=True)).__next__)
        return content.decode(encoding)


def _check_script(
    script: Script,
    cells: Cells | None,
    wanted: Iterable[Rule],
    faults: list[tuple[str, str]] | None = None,
) -> list[Checked]:
    ignores = Ignores(script.lines)
    found = [
        _checked(script, cells, rule, hit)
        for rule in wanted
        for hit in _hits(rule, script, faults)
        if not ignores.silence(rule.code, rule.name, *_lines_of(script, hit))
    ]
    return sorted(found, key=_place)


def _hits(rule: Rule, script: Script, faults: list[tuple[str, str]] | None) -> list[Hit]:
    """What a rule finds; one that raises is told of in `faults` and costs nothing else (without, it raises)."""
    try:
        return list(rule.check(script))
    except Exception as error:
        if faults is None:
            raise
        because = (
            f"{rule.code}: internal error: {type(error).__name__}: {error}; please report this"
        )
        faults.append((script.path, because))
        return []


def _lines_of(script: Script, hit: Hit) -> tuple[int, int]:
    """The first and last line on which a comment silences a hit."""
    first = hit.node.lineno
    return first, min(hit.node.end_lineno or first, first + 20)


def _checked(script: Script, cells: Cells | None, rule: Rule, hit: Hit) -> Checked:
    finding = Finding(
        code=rule.code,
        name=rule.name,
        severity=hit.severity or rule.severity,
        confidence=hit.confidence or rule.confidence,
        role=Role.INDEPENDENT,
        title=hit.title,
        explanation=rule.documentation.strip(),
        remedy=hit.remedy or rule.remedy,
        ranks=(),
        hosts=(),
        evidence=tuple(_evidence(script, cells, n) for n in _lines(script, hit)),
    )
    return Checked(
        finding=finding,
        column=hit.node.col_offset + 1,
        end_line=hit.node.end_lineno or hit.node.lineno,
        end_column=(hit.node.end_col_offset or hit.node.col_offset) + 1,
        cell=cells.place(hit.node.lineno)[0] if cells else None,
        edits=() if cells else hit.edits,
    )


def _lines(script: Script, hit: Hit) -> list[int]:
    numbers = [hit.node.lineno, *sorted(node.lineno for node in hit.also)]
    return list(dict.fromkeys(n for n in numbers if n <= len(script.lines)))


def _evidence(script: Script, cells: Cells | None, number: int) -> Line:
    text = script.lines[number - 1][:2000]
    if cells is None:
        return Line(script.path, number, text)
    cell, line = cells.place(number)
    return Line(f"{script.path}#cell-{cell}", line, text)


def _reason(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"no Python that this version can parse (line {error.lineno}: {error.msg})"
    return f"cannot be read: {error or type(error).__name__}"


def _sureness(confidence: Confidence) -> int:
    return _CONFIDENCES.index(confidence)


def _gravity(finding: Finding) -> tuple[int, int, str, str, int]:
    line = finding.evidence[0]
    return (
        _SEVERITIES.index(finding.severity),
        _sureness(finding.confidence),
        finding.code,
        line.file,
        line.number,
    )


def _place(checked: Checked) -> tuple[int, int, int, str]:
    line = checked.finding.evidence[0]
    return checked.cell or 0, line.number, checked.column, checked.finding.code
