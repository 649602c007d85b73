"""The script sets an emergency or debugging variable for everybody who runs it.

`NCCL_MAX_NCHANNELS=1` leaves one ring of many (2 x H200: 327 -> 22 GB/s of bus bandwidth); `NCCL_P2P_DISABLE` and
`NCCL_IB_DISABLE` send data over the host or the slow network; `NCCL_BUFFSIZE=16777216` is four times the default of
4 MiB, not less; `CUDA_LAUNCH_BLOCKING` and `TORCH_DISTRIBUTED_DEBUG=DETAIL` make every step slower. They belong into
the environment of the one run that needs them.
"""

import ast
import re
from collections.abc import Iterator

from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script, constant
from nccldoctor.model.finding import Confidence, Severity

code = "CODE22"
name = "debug-leftover"
severity = Severity.NOTE
confidence = Confidence.HIGH
remedy = (
    "NCCL_DEBUG=INFO torchrun … train.py  # in the environment of that one run",
    "nccldoctor env  # shows what is set, by whom, and what it costs",
)

DEFAULT_BUFFSIZE_BYTES = 4 * 1024 * 1024
_PURPOSE = re.compile("determin|debug|invarian|reproduc|workaround|test")
_ON = ("1", "true", "yes", "on")
_DISABLES = {
    "NCCL_P2P_DISABLE": "GPUs of a host then exchange through host memory",
    "NCCL_SHM_DISABLE": "ranks of a host then exchange over the network",
    "NCCL_IB_DISABLE": "hosts then exchange over TCP sockets",
    "CUDA_LAUNCH_BLOCKING": "every kernel then waits for the one before",
    "TORCH_NCCL_BLOCKING_WAIT": "the CPU then waits in every collective, and no watchdog runs",
    "NCCL_BLOCKING_WAIT": "the CPU then waits in every collective, and no watchdog runs",
}


def check(script: Script) -> Iterator[Hit]:
    for node, key, value in settings(script):
        said = _judge(key, value)
        if said is not None:
            title, weight = said
            chosen = _on_request(script, node)
            yield Hit(node, title, Confidence.LOW if chosen else None, severity=weight)


def _on_request(script: Script, node: ast.AST) -> bool:
    """Whether somebody has to ask for the setting: by a branch, or by a function that says what it is for."""
    if script.is_test:
        return True
    for above in script.ancestors(node):
        if isinstance(above, ast.If) and "__name__" not in ast.unparse(above.test):
            return True
        if isinstance(above, ast.FunctionDef) and _PURPOSE.search(above.name):
            return True
    return False


def settings(script: Script) -> Iterator[tuple[ast.stmt | ast.expr, str, str]]:
    """The variables that a script sets to a literal: where, which, and the value."""
    for assign in script.assigns:
        if isinstance(assign, ast.Assign) and isinstance(assign.targets[0], ast.Subscript):
            target = assign.targets[0]
            if script.dotted(target.value) == "os.environ":
                key, value = constant(target.slice), constant(assign.value)
                if isinstance(key, str) and value is not None:
                    yield assign, key, str(value)
    for call in script.calls:
        if call.dotted in ("os.environ.setdefault", "os.putenv") and len(call.node.args) == 2:
            key, value = constant(call.node.args[0]), constant(call.node.args[1])
            if isinstance(key, str) and value is not None:
                yield call.node, key, str(value)


def _judge(key: str, value: str) -> tuple[str, Severity | None] | None:
    """What to say of a setting, and how grave it is, or None."""
    setting = f"{key}={value}"
    if key in _DISABLES:
        on = value.casefold() in _ON
        return (
            (f"{setting} stays on for every run: {_DISABLES[key]}", Severity.WARNING)
            if on
            else None
        )
    if key in ("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS") and value.isdigit() and int(value) < 4:
        return (
            f"{setting} leaves {value} of NCCL's rings, and a small part of the bandwidth",
            Severity.WARNING,
        )
    if key == "NCCL_BUFFSIZE" and value.isdigit():
        return _buffsize(setting, int(value))
    if key == "NCCL_DEBUG" and value.upper() in ("INFO", "TRACE", "ABORT"):
        return f"{setting} writes a log on every rank of every run", None
    if key == "TORCH_DISTRIBUTED_DEBUG" and value.upper() == "DETAIL":
        return f"{setting} checks every collective against all ranks: slow", Severity.WARNING
    return None


def _buffsize(setting: str, size_bytes: int) -> tuple[str, Severity | None] | None:
    if size_bytes > DEFAULT_BUFFSIZE_BYTES:
        times = f"{size_bytes / DEFAULT_BUFFSIZE_BYTES:g}"
        return (
            f"{setting} is {times} times the default of 4 MiB: raised, not reduced",
            Severity.WARNING,
        )
    if size_bytes < DEFAULT_BUFFSIZE_BYTES:
        return f"{setting} is below the default of 4 MiB", None
    return None


flags = {
    "one channel": """
import os
os.environ["NCCL_MAX_NCHANNELS"] = "1"
""",
    "four times the default": """
import os
os.environ["NCCL_BUFFSIZE"] = "16777216"
""",
    "no peer-to-peer": """
import os
os.environ.setdefault("NCCL_P2P_DISABLE", "1")
""",
    "a log in every run": """
from os import environ
environ["NCCL_DEBUG"] = "INFO"
""",
}
passes = {
    "harmless": """
import os
os.environ["NCCL_DEBUG"] = "WARN"
os.environ["NCCL_P2P_DISABLE"] = "0"
os.environ["NCCL_SOCKET_IFNAME"] = "eth0"
os.environ["NCCL_BUFFSIZE"] = size
""",
}
