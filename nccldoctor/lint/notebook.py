"""Turns a notebook into one script, and a line of that script back into a cell and a line in it."""

import ast
import json
from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cells:
    """Where the code cells lie in the joined text: `starts[i]` is the first line of cell number `numbers[i]`."""

    starts: tuple[int, ...]
    numbers: tuple[int, ...]

    def place(self, line: int) -> tuple[int, int]:
        """The cell (counting all cells from 1) and the line in it, of a line of the joined text."""
        at = bisect_right(self.starts, line) - 1
        return self.numbers[at], line - self.starts[at] + 1


def read_notebook(text: str) -> tuple[str, Cells]:
    """The code of a notebook; magics, shell lines and cells that are no Python become comments.

    Raises ValueError when the text is no notebook.
    """
    try:
        document = json.loads(text)
        cells = document["cells"]
        sources = [
            (number, _joined(cell.get("source", "")))
            for number, cell in enumerate(cells, 1)
            if cell.get("cell_type") == "code"
        ]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no notebook: {error}") from None
    lines: list[str] = []
    starts, numbers = [], []
    for number, source in sources:
        starts.append(len(lines) + 1)
        numbers.append(number)
        lines += _python(source)
    return "\n".join(lines) + "\n", Cells(tuple(starts) or (1,), tuple(numbers) or (1,))


def _joined(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def _python(source: str) -> list[str]:
    lines = source.splitlines() or [""]
    if lines[0].startswith("%%"):
        return [f"# {line}" for line in lines]
    lines = [_silenced(line) for line in lines]
    try:
        ast.parse("\n".join(lines))
    except (SyntaxError, ValueError):
        return [f"# {line}" for line in lines]
    return lines


def _silenced(line: str) -> str:
    bare = line.lstrip()
    indent = line[: len(line) - len(bare)]
    return f"{indent}pass  # {bare}" if bare.startswith(("%", "!", "?")) else line
