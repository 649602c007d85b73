"""Finds the files to look at, and a function that one file imports from another."""

import ast
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path

from nccldoctor.errors import DoctorError
from nccldoctor.lint.config import Config
from nccldoctor.lint.script import Function, Script

_WORTH = re.compile(
    rb"distributed|DataParallel|NCCL_|MASTER_ADDR|CUDA_VISIBLE_DEVICES|CUDA_LAUNCH_BLOCKING"
    rb"|accelerate|lightning|deepspeed|set_device|torch\.benchmark"
)
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}
_KEPT = 64
_LIMIT_BYTES = 4_000_000


def worth(content: bytes) -> bool:
    """Whether a file mentions anything that a rule could speak of; the others need no parsing."""
    return _WORTH.search(content) is not None


def files(paths: Iterable[str | Path], config: Config) -> Iterator[Path]:
    """Scripts and notebooks under files and folders, sorted; hidden and built folders are left out."""
    for given in paths:
        path = Path(given)
        if path.is_dir():
            for found in sorted([*path.rglob("*.py"), *path.rglob("*.ipynb")]):
                parts = found.relative_to(path).parts
                hidden = any(p.startswith(".") or p in _SKIPPED for p in parts[:-1])
                if not hidden and config.looks_at(found) and found.is_file():
                    yield found
        elif path.exists():
            yield path
        else:
            raise DoctorError(f"{given}: no such file or folder")


class Project:
    """Looks functions up across files; keeps the last few parsed files and no more."""

    def __init__(self) -> None:
        self._scripts: OrderedDict[Path, Script | None] = OrderedDict()
        self._homes: dict[tuple[Path, str], Path | None] = {}

    def find(self, script: Script, dotted: str) -> tuple[Script, Function] | None:
        """The function `package.module.name` or `.module.name`, as imported by `script`."""
        module, _, name = dotted.rpartition(".")
        if not name or (not module.strip(".") and not dotted.startswith(".")):
            return None
        home = self._home(Path(script.path), module if module else ".")
        other = self._parsed(home) if home else None
        if other is None:
            return None
        for function in other.functions:
            if function.name == name and isinstance(other.parent(function), ast.Module):
                return other, function
        return None

    def _home(self, importer: Path, module: str) -> Path | None:
        key = (importer.parent, module)
        if key not in self._homes:
            self._homes[key] = _file_of(importer, module)
        return self._homes[key]

    def _parsed(self, path: Path) -> Script | None:
        if path in self._scripts:
            self._scripts.move_to_end(path)
            return self._scripts[path]
        parsed: Script | None = None
        try:
            content = path.read_bytes()
            if len(content) <= _LIMIT_BYTES and worth(content):
                parsed = Script(str(path), content.decode("utf-8"))
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            parsed = None
        self._scripts[path] = parsed
        while len(self._scripts) > _KEPT:
            self._scripts.popitem(last=False)
        return parsed


def _file_of(importer: Path, module: str) -> Path | None:
    bare = module.lstrip(".")
    level = len(module) - len(bare)
    parts = bare.split(".") if bare else []
    folder = importer.absolute().parent
    if level:
        for _ in range(level - 1):
            folder = folder.parent
        return _existing(folder, parts)
    for base in [folder, *list(folder.parents)[:6]]:
        found = _existing(base, parts)
        if found is not None:
            return found
    return None


def _existing(base: Path, parts: list[str]) -> Path | None:
    at = base.joinpath(*parts)
    if parts and (file := at.with_name(f"{at.name}.py")).is_file():
        return file
    package = at / "__init__.py"
    return package if parts and package.is_file() else None
