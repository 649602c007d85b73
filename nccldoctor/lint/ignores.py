"""Reads `# nccldoctor: ignore[CODE04]` comments: which rules a line, or a whole file, does not want to hear of."""

import re

_COMMENT = re.compile(r"#\s*nccldoctor:\s*ignore(-file)?(?:\[([A-Za-z0-9_\-, ]{0,400})\])?")


class Ignores:
    """What the comments of one script silence; a bare `ignore` silences every rule."""

    def __init__(self, lines: list[str]) -> None:
        self._lines: dict[int, frozenset[str]] = {}
        self._file: frozenset[str] = frozenset()
        for number, line in enumerate(lines, 1):
            if "nccldoctor:" not in line:
                continue
            for match in _COMMENT.finditer(line):
                words = (match[2] or "*").replace(",", " ").casefold().split()
                if match[1]:
                    self._file |= frozenset(words)
                else:
                    self._lines[number] = self._lines.get(number, frozenset()) | frozenset(words)

    def silence(self, code: str, name: str, first: int, last: int) -> bool:
        """Whether a finding on the lines `first` to `last` is silenced there, or for the file."""
        mine = {code.casefold(), name.casefold(), "*"}
        if mine & self._file:
            return True
        if not self._lines:
            return False
        return any(mine & self._lines.get(n, frozenset()) for n in range(first, last + 1))
