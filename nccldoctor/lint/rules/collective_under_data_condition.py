"""Whether a collective is made depends on something that each rank sees differently.

A loss that is NaN on one rank, a clock, a random number, an exception: ranks decide differently, one enters the
collective and the others do not. Let the ranks agree first (all_reduce the flag) and then decide on the agreed
value; that is right, and not flagged.
"""

import ast
import re
from collections.abc import Iterator

from nccldoctor.lint.collectives import Collective, collectives
from nccldoctor.lint.names import last_name
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script, within
from nccldoctor.model.finding import Confidence, Severity

code = "CODE05"
name = "collective-under-data-condition"
severity = Severity.WARNING
confidence = Confidence.MEDIUM
remedy = (
    "flag = torch.tensor([float(bad)], device=device)",
    "dist.all_reduce(flag, op=dist.ReduceOp.MAX)  # every rank, every time",
    "if flag.item(): ...  # now all ranks decide alike",
)

_CLOCKS = ("time.time", "time.monotonic", "time.perf_counter")
_CHANCE = (
    "random.random",
    "random.randint",
    "random.choice",
    "numpy.random.rand",
    "numpy.random.random",
)
_DATA = re.compile(r"loss|grad|logit|output|hidden|activation", re.IGNORECASE)
_JUDGES = ("isnan", "isinf", "isfinite")


def check(script: Script) -> Iterator[Hit]:
    seen: set[ast.AST] = set()
    for found in collectives(script):
        for above in script.ancestors(found.node):
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
                break
            if above in seen:
                break
            hit = _under(script, found, above)
            if hit is not None:
                seen.add(above)
                yield hit
                break


def _under(script: Script, found: Collective, above: ast.AST) -> Hit | None:
    if isinstance(above, ast.ExceptHandler):
        title = (
            f"`{found.name}` runs only on the ranks where an exception came (line {above.lineno})"
        )
        return Hit(found.node, title, Confidence.LOW)
    if not isinstance(above, ast.If | ast.While) or script.inside(found.node, above.test):
        return None
    source = _local_source(script, above.test)
    if not source or _agreed(script, found, above):
        return None
    also = (above,) if above.lineno != found.node.lineno else ()
    title = f"`{found.name}` depends on {source}, which each rank sees differently (line {above.lineno})"
    return Hit(found.node, title, also=also)


def _local_source(script: Script, test: ast.expr) -> str:
    """What in a test differs between ranks, in words, or ""."""
    parts: list[ast.AST] = [test]
    parts += [script.settled(n) for n in ast.walk(test) if isinstance(n, ast.Name)]
    for node in (n for part in parts for n in ast.walk(part)):
        if not isinstance(node, ast.Call):
            continue
        dotted, last = script.dotted(node.func), last_name(node.func)
        if dotted in _CLOCKS:
            return "the clock"
        if dotted in _CHANCE and "seed" not in script.text:
            return "chance"
        judges = last in _JUDGES and _DATA.search(script.show(node))
        reads = last == "item" and not node.args and not dotted and "loss" in script.show(node)
        if judges or reads:
            return f"`{script.show(node)}`"
    return ""


def _agreed(script: Script, found: Collective, above: ast.If | ast.While) -> bool:
    """Whether a value that the test looks at went through a collective before."""
    looked: set[str] = set()
    for node in ast.walk(above.test):
        if isinstance(node, ast.Name):
            looked.add(node.id)
            looked |= {n.id for n in ast.walk(script.settled(node)) if isinstance(n, ast.Name)}
    for node in within(script.scope(above)):
        if not isinstance(node, ast.Call) or node.lineno >= found.node.lineno:
            continue
        last = last_name(node.func)
        if any(w in last for w in ("reduce", "broadcast", "gather", "sync", "agree")):
            given = {n.id for a in node.args for n in ast.walk(a) if isinstance(n, ast.Name)}
            statement = script.statement(node)
            if isinstance(statement, ast.Assign):
                given |= {
                    n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)
                }
            if given & looked:
                return True
    return False


flags = {
    "NaN": """
import torch, torch.distributed as dist
def step(loss, x):
    if torch.isnan(loss):
        dist.all_reduce(x)
""",
    "the clock": """
import time
import torch.distributed as dist
def loop(start, x):
    while True:
        if time.time() - start > 600:
            dist.barrier()
            save(x)
""",
    "through a variable": """
import torch.distributed as dist
def step(loss, x):
    high = loss.item() > 10
    if high:
        dist.all_reduce(x)
""",
}
passes = {
    "agreed before": """
import torch, torch.distributed as dist
def step(loss, x):
    bad = torch.isnan(loss).float()
    dist.all_reduce(bad, op=dist.ReduceOp.MAX)
    if bad.item() > 0:
        dist.all_reduce(x)
""",
    "every n steps": """
import torch.distributed as dist
def loop(loader, x):
    for step, batch in enumerate(loader):
        if step % 10 == 0:
            dist.all_reduce(x)
""",
    "nothing collective": """
import torch, torch.distributed as dist
def step(loss):
    if torch.isnan(loss):
        print("NaN")
""",
}
