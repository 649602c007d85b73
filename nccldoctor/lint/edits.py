"""Mends scripts: applies the edits of findings, and shows them as a diff first."""

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path

from nccldoctor.lint.engine import Outcome
from nccldoctor.lint.rule import Edit


def edits_by_file(outcome: Outcome) -> Iterator[tuple[str, list[Edit]]]:
    """The edits of an outcome, file by file."""
    by_file: dict[str, list[Edit]] = {}
    for checked in outcome.checked:
        if checked.edits:
            by_file.setdefault(checked.finding.evidence[0].file, []).extend(checked.edits)
    yield from sorted(by_file.items())


def mended(text: str, edits: Iterable[Edit]) -> str:
    """The text with edits applied, from its end to its start; of two that overlap, the later one in the text."""
    content = text.encode("utf-8")
    starts = [0]
    for line in content.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    last = len(content) + 1
    for edit in sorted(set(edits), key=_position, reverse=True):
        begin = starts[edit.line - 1] + edit.column
        end = starts[edit.end_line - 1] + edit.end_column
        if end <= last:
            content = content[:begin] + edit.text.encode("utf-8") + content[end:]
            last = begin
    return content.decode("utf-8")


def diff(path: str, before: str, after: str) -> str:
    """A unified diff that `patch -p1` and `git apply` take."""
    name = path.lstrip("/")
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"a/{name}",
        f"b/{name}",
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def mended_files(outcome: Outcome) -> Iterator[tuple[Path, str, str]]:
    """Each file that can be mended, its text, and its text mended."""
    for name, edits in edits_by_file(outcome):
        with Path(name).open(encoding="utf-8", newline="") as file:
            before = file.read()
        yield Path(name), before, mended(before, edits)


def _position(edit: Edit) -> tuple[int, int, int, int, str]:
    return edit.line, edit.column, edit.end_line, edit.end_column, edit.text
