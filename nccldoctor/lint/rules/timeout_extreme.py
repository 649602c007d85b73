"""The timeout of a process group is so short that healthy jobs die, so long that hangs go unseen, or no timedelta.

The watchdog counts from the moment a collective is enqueued, so a first step that compiles, a slow checkpoint or a
data loader on one rank is inside it. A timeout prevents no hang: it turns one into an abort. The default is ten
minutes with NCCL and thirty otherwise. Tests and probes may well be stricter.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.flow import INIT
from nccldoctor.lint.names import last_name
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script, argument, constant
from nccldoctor.model.finding import Confidence, Severity

code = "CODE14"
name = "timeout-extreme"
severity = Severity.WARNING
confidence = Confidence.HIGH
remedy = (
    "timeout=datetime.timedelta(minutes=10)  # longer than the slowest step that one rank does alone",
    "nccldoctor run train.py  # finds a hang long before, and names the rank",
)

_POSITION = {INIT: 2, "torch.distributed.new_group": 1}
_UNITS = {
    "weeks": 604800.0,
    "days": 86400.0,
    "hours": 3600.0,
    "minutes": 60.0,
    "seconds": 1.0,
    "milliseconds": 1e-3,
    "microseconds": 1e-6,
}
_ORDER = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
SHORT_SECONDS = 120
LONG_SECONDS = 7200


def check(script: Script) -> Iterator[Hit]:
    for call in script.calls:
        if call.dotted not in _POSITION:
            continue
        given = argument(call.node, _POSITION[call.dotted], "timeout")
        if given is None:
            continue
        yield from _judge(script, given, script.settled(given))


def _judge(script: Script, given: ast.expr, value: ast.expr) -> Iterator[Hit]:
    number = constant(value)
    if isinstance(number, int | float) and not isinstance(number, bool):
        title = f"`timeout={script.show(given)}` is a number: it has to be a datetime.timedelta (TypeError)"
        yield Hit(given, title, severity=Severity.ERROR)
        return
    if not isinstance(value, ast.Call) or last_name(value.func) != "timedelta":
        return
    root = value.func
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(root, ast.Name) and not script.bound(root.id) and "import *" not in script.text:
        yield Hit(given, f"`{root.id}` is not imported: NameError", severity=Severity.ERROR)
    seconds = _seconds(value)
    if seconds is None:
        return
    sureness = Confidence.LOW if script.is_test else None
    if seconds < SHORT_SECONDS:
        title = (
            f"A timeout of {seconds:g} s ends healthy jobs: a compile, a checkpoint or a slow"
            " loader on one rank takes longer"
        )
        yield Hit(given, title, sureness)
    elif seconds > LONG_SECONDS:
        title = f"A timeout of {seconds / 3600:g} h lets a hung job hold its GPUs that long"
        yield Hit(given, title, sureness, Severity.NOTE)


def _seconds(call: ast.Call) -> float | None:
    """The length of a timedelta of plain numbers, or None."""
    parts = list(zip(_ORDER, call.args, strict=False))
    parts += [(k.arg or "", k.value) for k in call.keywords]
    total = 0.0
    for unit, node in parts:
        number = _number(node)
        if number is None or unit not in _UNITS:
            return None
        total += number * _UNITS[unit]
    return total if parts else None


def _number(node: ast.expr) -> float | None:
    value = constant(node)
    if isinstance(value, int | float):
        return float(value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _number(node.left), _number(node.right)
        return left * right if left is not None and right is not None else None
    return None


flags = {
    "30 s": """
import datetime
import torch.distributed as dist
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=30))
""",
    "a number": """
import torch.distributed as dist
dist.init_process_group("nccl", timeout=1800)
""",
    "not imported": """
import torch.distributed as dist
dist.init_process_group("nccl", timeout=datetime.timedelta(minutes=10))
""",
    "a day": """
from datetime import timedelta
import torch.distributed as dist
dist.init_process_group("nccl", timeout=timedelta(days=1))
""",
}
passes = {
    "usual": """
import datetime
import torch.distributed as dist
dist.init_process_group("nccl", timeout=datetime.timedelta(minutes=30))
dist.new_group(timeout=datetime.timedelta(seconds=60 * 10))
""",
    "from arguments": """
from datetime import timedelta
import torch.distributed as dist
dist.init_process_group("nccl", timeout=timedelta(minutes=args.timeout))
""",
    "a strict probe": """
from datetime import timedelta
import torch.distributed as dist
dist.monitored_barrier(timeout=timedelta(seconds=5))
""",
}
