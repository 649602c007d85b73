"""The training forward goes around DDP, or gradients are synchronised on some ranks only.

`model.module(x)` runs the bare model: DDP never learns of that forward, so gradients are not reduced and ranks drift
apart without a word. `model.no_sync()` under a test that differs between ranks leaves some ranks waiting for a
reduction that the others skip. Evaluation through `.module` under `no_grad` is right.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.names import last_name
from nccldoctor.lint.ranks import splits
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script, within
from nccldoctor.model.finding import Confidence, Severity

code = "CODE19"
name = "ddp-bypassed"
severity = Severity.ERROR
confidence = Confidence.MEDIUM
remedy = ("loss = model(x)  # not model.module(x)",)

_DDP = "torch.nn.parallel.DistributedDataParallel"


def check(script: Script) -> Iterator[Hit]:
    if not any(script.calls_to(_DDP)):
        return
    for call in script.calls:
        func = call.node.func
        if isinstance(func, ast.Attribute) and func.attr == "module" and _trains(script, call.node):
            yield Hit(
                call.node, f"`{script.show(func)}(…)` goes around DDP: gradients are not reduced"
            )
        elif last_name(func) == "no_sync":
            for above in script.ancestors(call.node):
                if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
                    break
                if isinstance(above, ast.If) and splits(script, above.test):
                    title = f"`no_sync` is entered on some ranks only, because of `{script.show(above.test)}`"
                    yield Hit(call.node, title, also=(above,))
                    break


def _trains(script: Script, call: ast.Call) -> bool:
    """Whether a backward follows in the same loop, and no `no_grad` stands around the call."""
    for above in script.ancestors(call):
        if isinstance(above, ast.With) and any(
            "no_grad" in ast.unparse(i) or "inference_mode" in ast.unparse(i) for i in above.items
        ):
            return False
    for loop in script.loops(call):
        for node in within(loop):
            if isinstance(node, ast.Call) and last_name(node.func) == "backward":
                return node.lineno >= call.lineno
    return False


flags = {
    "a loop": """
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(net)
for x, y in loader:
    loss = criterion(model.module(x), y)
    loss.backward()
""",
    "no_sync by rank": """
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(net)
def step(rank, x):
    if rank == 0:
        with model.no_sync():
            model(x).backward()
    else:
        model(x).backward()
""",
}
passes = {
    "evaluation": """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(net)
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    with torch.no_grad():
        model.module(x)
""",
    "accumulation": """
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(net)
for i, x in enumerate(loader):
    if i % 4:
        with model.no_sync():
            model(x).backward()
    else:
        model(x).backward()
""",
}
