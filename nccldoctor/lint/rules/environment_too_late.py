"""A variable is set after the process group has started: too late to be read.

NCCL and PyTorch read most of their variables once, when the first communicator or group is made. Set them before
`init_process_group`, or better before Python starts.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.flow import INIT
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.rules.debug_leftover import settings
from nccldoctor.lint.script import Script
from nccldoctor.model.finding import Confidence, Severity

code = "CODE23"
name = "environment-too-late"
severity = Severity.WARNING
confidence = Confidence.HIGH
remedy = ("set it before `init_process_group`, or in the environment: NCCL_… torchrun train.py",)

_PREFIXES = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "GLOO_", "TORCH_DISTRIBUTED_")


def check(script: Script) -> Iterator[Hit]:
    inits = list(script.calls_to(INIT))
    for node, key, _ in settings(script):
        if not key.startswith(_PREFIXES):
            continue
        for init in inits:
            if script.scope(init) is script.scope(node) and _follows(script, init, node):
                title = f"{key} is set after `init_process_group` (line {init.lineno}): too late to be read"
                yield Hit(node, title, also=(init,))
                break


def _follows(script: Script, init: ast.Call, node: ast.stmt | ast.expr) -> bool:
    """Whether the setting comes after the start on the way of one process, and not in another branch."""
    if node.lineno <= init.lineno or "destroy_process_group" in _between(script, init, node):
        return False
    branches = [a for a in script.ancestors(init) if isinstance(a, ast.If | ast.Try | ast.Match)]
    around = list(script.ancestors(node))
    return all(branch in around for branch in branches) and not any(
        isinstance(a, ast.If) and _in_other_arm(script, a, init, node) for a in branches
    )


def _between(script: Script, init: ast.Call, node: ast.stmt | ast.expr) -> str:
    return "\n".join(script.lines[init.lineno - 1 : node.lineno])


def _in_other_arm(script: Script, branch: ast.If, one: ast.AST, other: ast.AST) -> bool:
    arms = [any(script.inside(n, s) for s in branch.body) for n in (one, other)]
    return arms[0] != arms[1]


flags = {
    "after": """
import os
import torch.distributed as dist
dist.init_process_group("nccl")
os.environ["NCCL_SOCKET_IFNAME"] = "eth0"
""",
}
passes = {
    "before": """
import os
import torch.distributed as dist
os.environ["NCCL_SOCKET_IFNAME"] = "eth0"
dist.init_process_group("nccl")
""",
    "another function, another branch": """
import os
import torch.distributed as dist
def start(late):
    if late:
        dist.init_process_group("nccl")
    else:
        os.environ["NCCL_SOCKET_IFNAME"] = "eth0"
def other():
    os.environ["NCCL_SOCKET_IFNAME"] = "eth1"
""",
}
