"""A collective is captured in a CUDA graph.

That works (NCCL 2.9.6 or newer) when all ranks capture and replay the same. But PyTorch's watchdog does not see
replayed collectives: a hang there has no timeout and no flight-recorder entry. When capture depends on the rank, it
hangs at once.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.collectives import Kind, collectives
from nccldoctor.lint.ranks import splits
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script
from nccldoctor.model.finding import Confidence, Severity

code = "CODE28"
name = "collective-in-graph"
severity = Severity.NOTE
confidence = Confidence.MEDIUM
remedy = (
    "nccldoctor watch --pid PID  # stacks show CUDAGraph.replay when a replay hangs: the watchdog will not",
    "capture and replay on every rank alike",
)

_GRAPH = "torch.cuda.graph"


def check(script: Script) -> Iterator[Hit]:
    for found in collectives(script):
        if found.kind is not Kind.DATA:
            continue
        capture = next((a for a in script.ancestors(found.node) if _captures(script, a)), None)
        if not isinstance(capture, ast.With):
            continue
        guard = next(
            (
                a
                for a in script.ancestors(capture)
                if isinstance(a, ast.If) and splits(script, a.test)
            ),
            None,
        )
        if guard is None:
            title = (
                f"`{found.name}` is captured in a CUDA graph: the watchdog does not see its replays"
            )
            yield Hit(found.node, title, also=(capture,))
        else:
            title = f"`{found.name}` is captured in a CUDA graph on some ranks only"
            yield Hit(found.node, title, severity=Severity.ERROR, also=(capture, guard))


def _captures(script: Script, node: ast.AST) -> bool:
    return isinstance(node, ast.With) and any(
        isinstance(i.context_expr, ast.Call) and script.dotted(i.context_expr.func) == _GRAPH
        for i in node.items
    )


flags = {
    "captured": """
import torch
import torch.distributed as dist
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = model(x)
    dist.all_reduce(y)
""",
    "on rank 0 only": """
import torch
import torch.distributed as dist
def capture(rank, g, y):
    if rank == 0:
        with torch.cuda.graph(g):
            dist.all_reduce(y)
""",
}
passes = {
    "outside": """
import torch
import torch.distributed as dist
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = model(x)
g.replay()
dist.all_reduce(y)
""",
}
