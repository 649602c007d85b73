"""Reads a shelf: a package in which each module is one record, by the names at the module's top level."""

import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import MISSING, fields
from types import ModuleType
from typing import Any, Protocol, TypeVar


class Shelved(Protocol):
    """What every record has; a dataclass whose other fields are names at the top level of its module."""

    @property
    def code(self) -> str: ...
    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=Shelved)


def shelf(kind: type[R], package: str, path: Iterable[str]) -> tuple[R, ...]:
    """One record a module of the package and its sub-packages, by code.

    `documentation` is the module's docstring and `module` its name; a module may leave out what has a default.
    """
    names = [m.name for m in pkgutil.walk_packages(path, f"{package}.") if not m.ispkg]
    found = [_read(kind, importlib.import_module(name)) for name in names]
    return tuple(sorted(found, key=lambda record: record.code))


def pick(records: Iterable[R], word: str) -> R | None:
    """The record with this code or name, whatever its case."""
    wanted = word.casefold()
    return next((r for r in records if wanted in (r.code.casefold(), r.name)), None)


def _read(kind: type[R], module: ModuleType) -> R:
    told: dict[str, Any] = {"documentation": module.__doc__ or "", "module": module.__name__}
    for field in fields(kind):  # type: ignore[arg-type]
        optional = field.default is not MISSING
        if field.name not in told and (hasattr(module, field.name) or not optional):
            told[field.name] = getattr(module, field.name)
    return kind(**told)
