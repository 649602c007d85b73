"""Reads `[tool.nccldoctor]` of the nearest pyproject.toml.

[tool.nccldoctor]
select = ["CODE04", "CODE06"]      # only these
ignore = ["CODE15"]                # never these
exclude = ["third_party/*"]        # files that are not looked at
confidence = "medium"              # the least sure findings that are shown
fail-on = "error"                  # error, warning, note or never
[tool.nccldoctor.per-file-ignores]
"tests/*" = ["CODE14"]
"""

import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from nccldoctor.errors import DoctorError
from nccldoctor.model.finding import Confidence

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KEYS = {"select", "ignore", "exclude", "confidence", "fail-on", "per-file-ignores"}


@dataclass(frozen=True, slots=True)
class Config:
    """What to look at, and what to tell. `root` is the folder that file patterns count from."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    confidence: Confidence = Confidence.MEDIUM
    fail_on: str = "error"
    per_file: tuple[tuple[str, tuple[str, ...]], ...] = ()
    root: Path = Path()

    def wants(self, code: str, name: str) -> bool:
        if self.select and not _among(code, name, self.select):
            return False
        return not _among(code, name, self.ignore)

    def looks_at(self, path: Path) -> bool:
        return not any(self._matches(path, pattern) for pattern in self.exclude)

    def ignored_in(self, path: Path, code: str, name: str) -> bool:
        return any(
            _among(code, name, codes) and self._matches(path, pattern)
            for pattern, codes in self.per_file
        )

    def _matches(self, path: Path, pattern: str) -> bool:
        try:
            relative = path.absolute().relative_to(self.root.absolute()).as_posix()
        except ValueError:
            relative = path.as_posix()
        bare = pattern.rstrip("/")
        return fnmatch(relative, bare) or fnmatch(relative, f"{bare}/*") or fnmatch(path.name, bare)


def _among(code: str, name: str, words: tuple[str, ...]) -> bool:
    """Whether a rule is named by its code, the start of its code, or its name."""
    return any(code.startswith(w.upper()) or w.casefold() == name for w in words)


def read_config(start: Path) -> Config:
    """The configuration that holds for a file or folder: that of the nearest pyproject.toml with our table.

    Raises DoctorError for a table that says something unknown.
    """
    at = start.absolute()
    for folder in [at, *at.parents]:
        file = folder / "pyproject.toml"
        if not file.is_file():
            continue
        try:
            table = tomllib.loads(file.read_text("utf-8")).get("tool", {}).get("nccldoctor")
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise DoctorError(f"{file} is no valid TOML: {error}") from None
        if table is not None:
            return _config(table, file)
    return Config()


def _config(table: dict[str, Any], file: Path) -> Config:
    unknown = sorted(set(table) - _KEYS)
    if unknown:
        raise DoctorError(
            f"{file}: [tool.nccldoctor] has no {unknown[0]!r}; it has {', '.join(sorted(_KEYS))}"
        )
    per_file = table.get("per-file-ignores", {})
    try:
        confidence = Confidence(table.get("confidence", "medium"))
    except ValueError:
        raise DoctorError(f'{file}: confidence is "high", "medium" or "low"') from None
    fail_on = table.get("fail-on", "error")
    if fail_on not in ("error", "warning", "note", "never"):
        raise DoctorError(f'{file}: fail-on is "error", "warning", "note" or "never"')
    return Config(
        select=_words(table, "select", file),
        ignore=_words(table, "ignore", file),
        exclude=_words(table, "exclude", file),
        confidence=confidence,
        fail_on=fail_on,
        per_file=tuple((pattern, _words(per_file, pattern, file)) for pattern in sorted(per_file)),
        root=file.parent,
    )


def _words(table: dict[str, Any], key: str, file: Path) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise DoctorError(f'{file}: {key} is a list of strings, as ["CODE04"]')
    return tuple(value)
