"""The model of a DDP job skips parts of itself depending on the data, and DDP has not been told.

Parameters that take no part in a step get no gradient, and DDP waits for them: `Expected to have finished reduction
in the prior iteration`, or a hang when ranks skip different parts. Many such branches are the same on every rank and
harmless, so this is a hint and never more.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.names import last_name
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Function, Script, argument, within
from nccldoctor.model.finding import Confidence, Severity

code = "CODE20"
name = "conditional-forward"
severity = Severity.NOTE
confidence = Confidence.LOW
remedy = (
    "DDP(model, find_unused_parameters=True)  # costs a walk over the graph in every step",
    "loss = loss + 0.0 * sum(p.sum() for p in self.branch.parameters())  # the part takes part, with weight 0",
)

_DDP = "torch.nn.parallel.DistributedDataParallel"
_DATA_CALLS = ("item", "any", "all", "sum", "max", "min", "mean")


def check(script: Script) -> Iterator[Hit]:
    wraps = list(script.calls_to(_DDP))
    if not wraps or any(
        argument(w, -1, "find_unused_parameters") is not None
        or argument(w, -1, "static_graph") is not None
        for w in wraps
    ):
        return
    for function in script.functions:
        if function.name == "forward" and isinstance(script.parent(function), ast.ClassDef):
            yield from _branches(script, function, wraps[0])


def _branches(script: Script, forward: Function, wrap: ast.Call) -> Iterator[Hit]:
    inputs = {a.arg for a in forward.args.args if a.arg != "self"}
    for node in within(forward):
        if isinstance(node, ast.If) and _looks_at_data(node.test, inputs):
            called = _submodule(node)
            if called is not None:
                title = f"`{script.show(called.func)}` runs only when `{script.show(node.test)}`, and DDP is not told"
                yield Hit(node, title, also=(wrap,))


def _looks_at_data(test: ast.expr, inputs: set[str]) -> bool:
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    calls = [
        n.func.attr
        for n in ast.walk(test)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
    ]
    return bool(names & inputs) and any(c in _DATA_CALLS for c in calls)


def _submodule(node: ast.If) -> ast.Call | None:
    for statement in node.body:
        for call in within(statement):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if last_name(call.func.value) == "self":
                return call
    return None


flags = {
    "by the data": """
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return self.left(x)
        return self.right(x)
model = DDP(Net())
""",
}
passes = {
    "told": """
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return self.left(x)
        return self.right(x)
model = DDP(Net(), find_unused_parameters=True)
""",
    "by the configuration": """
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
class Net(nn.Module):
    def forward(self, x):
        if self.deep:
            x = self.more(x)
        return self.right(x)
model = DDP(Net())
""",
}
