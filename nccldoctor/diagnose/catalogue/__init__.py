"""The diagnoses, found by walking this folder: put a file into a group's folder, and it is there."""

import importlib
import pkgutil
from functools import lru_cache

from nccldoctor.diagnose.diagnosis import Diagnosis


@lru_cache(maxsize=1)
def diagnoses() -> tuple[Diagnosis, ...]:
    """All diagnoses, by code."""
    found = []
    for module in pkgutil.walk_packages(__path__, prefix=f"{__name__}."):
        if not module.ispkg:
            found.append(_read(module.name))
    return tuple(sorted(found, key=lambda d: (d.group, d.code)))


def diagnosis(code: str) -> Diagnosis | None:
    """The diagnosis with this code or name, whatever its case."""
    wanted = code.casefold()
    return next((d for d in diagnoses() if wanted in (d.code.casefold(), d.name)), None)


def _read(name: str) -> Diagnosis:
    module = importlib.import_module(name)
    return Diagnosis(
        code=module.code,
        name=module.name,
        severity=module.severity,
        needs=module.needs,
        explains=module.explains,
        confirm=module.confirm,
        remedy=module.remedy,
        documentation=module.__doc__ or "",
        check=module.check,
        fires_on=module.fires_on,
        silent_on=module.silent_on,
        module=name,
        last_resort=getattr(module, "last_resort", False),
    )
