"""All log patterns: `NCCL` over the messages behind an NCCL header, `TEXT` over every other line.

Each module of this folder holds one or both lists; known noise comes last, so that it never hides a message that matters.
"""

import importlib
import pkgutil

from nccldoctor.parse.pattern import Pattern

_MODULES = sorted(
    (m.name for m in pkgutil.iter_modules(__path__)), key=lambda name: (name == "noise", name)
)

NCCL: list[Pattern] = []
TEXT: list[Pattern] = []
for _name in _MODULES:
    _module = importlib.import_module(f"{__name__}.{_name}")
    NCCL += getattr(_module, "NCCL", [])
    TEXT += getattr(_module, "TEXT", [])
