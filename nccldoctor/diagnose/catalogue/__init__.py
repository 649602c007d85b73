"""The diagnoses, found by walking this folder: put a file into a group's folder, and it is there."""

from functools import lru_cache

from nccldoctor.diagnose.diagnosis import Diagnosis
from nccldoctor.model.shelf import pick, shelf


@lru_cache(maxsize=1)
def diagnoses() -> tuple[Diagnosis, ...]:
    """All diagnoses, by code."""
    return shelf(Diagnosis, __name__, __path__)


def diagnosis(code: str) -> Diagnosis | None:
    """The diagnosis with this code or name, whatever its case."""
    return pick(diagnoses(), code)
