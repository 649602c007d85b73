"""A barrier stands in the training loop.

Gradient reduction already keeps the ranks together; a barrier in every step adds a wait of the CPU, and hides which
rank is slow. Around checkpoints or every so many steps it is fine, and not flagged.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.names import last_name
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script, within
from nccldoctor.model.finding import Confidence, Severity

code = "CODE24"
name = "barrier-in-step"
severity = Severity.NOTE
confidence = Confidence.MEDIUM
remedy = ("remove the barrier; `nccldoctor watch` shows which rank is late",)


def check(script: Script) -> Iterator[Hit]:
    for call in script.calls_to("torch.distributed.barrier"):
        loop = next(script.loops(call), None)
        if loop is None or not _steps(script, loop):
            continue
        statement = script.statement(call)
        if script.parent(statement) is loop:
            yield Hit(
                call,
                f"`{script.show(call.func)}` makes every rank wait in every step",
                also=(loop,),
            )


def _steps(script: Script, loop: ast.AST) -> bool:
    """Whether the innermost loop around a backward is this one."""
    for node in within(loop):
        if isinstance(node, ast.Call) and last_name(node.func) == "backward":
            return next(script.loops(node), None) is loop
    return False


flags = {
    "in every step": """
import torch.distributed as dist
for batch in loader:
    loss = model(batch)
    loss.backward()
    dist.barrier()
    optimizer.step()
""",
}
passes = {
    "after the epoch": """
import torch.distributed as dist
for epoch in range(3):
    for batch in loader:
        model(batch).backward()
    dist.barrier()
""",
    "at checkpoints": """
import torch.distributed as dist
for step, batch in enumerate(loader):
    model(batch).backward()
    if step % 1000 == 0:
        save(model)
        dist.barrier()
""",
}
