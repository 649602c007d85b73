"""A tensor whose size depends on the rank goes into a collective that wants the same size everywhere.

all_reduce, broadcast, all_gather and reduce_scatter assume equal shapes: otherwise the job hangs, or numbers land in
the wrong places. Pad to the longest, or exchange the sizes first; all_to_all takes lists of splits, and point-to-point
calls are a matter between two ranks: neither is flagged.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.names import last_name
from nccldoctor.lint.ranks import rank_kind
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script
from nccldoctor.model.finding import Confidence, Severity

code = "CODE17"
name = "shape-differs-by-rank"
severity = Severity.ERROR
confidence = Confidence.MEDIUM
remedy = (
    "sizes = [torch.zeros_like(n) for _ in range(world_size)]; dist.all_gather(sizes, n)  # then pad to max(sizes)",
    "dist.all_gather_object(parts, part)  # for small things of any size",
)

_SAME = {
    "torch.distributed.all_reduce": 0,
    "torch.distributed.broadcast": 0,
    "torch.distributed.reduce": 0,
    "torch.distributed.all_gather": 1,
    "torch.distributed.all_gather_into_tensor": 1,
    "torch.distributed.reduce_scatter_tensor": 1,
}
_SHAPED = frozenset(f"torch.{n}" for n in ("empty", "zeros", "ones", "rand", "randn", "arange"))


def check(script: Script) -> Iterator[Hit]:
    for call in script.calls:
        position = _SAME.get(call.dotted)
        if position is None or len(call.node.args) <= position:
            continue
        tensor = call.node.args[position]
        made = script.settled(tensor)
        part = _shape_of_rank(script, made)
        if part:
            title = (
                f"`{script.show(call.node.func)}` gets a tensor whose size depends on `{part}`:"
                " the ranks' shapes differ"
            )
            yield Hit(call.node, title, also=(made,) if made is not tensor else ())


def _shape_of_rank(script: Script, made: ast.expr) -> str:
    """The part of a tensor's shape that is the rank, or ""."""
    shapes: list[ast.expr] = []
    if isinstance(made, ast.Call):
        if script.dotted(made.func) in _SHAPED:
            shapes = list(made.args)
        elif isinstance(made.func, ast.Attribute) and last_name(made.func) in ("cuda", "to"):
            return _shape_of_rank(script, made.func.value)
    elif isinstance(made, ast.Subscript) and isinstance(made.slice, ast.Slice):
        ends = (made.slice.lower, made.slice.upper)
        shapes = [e for e in ends if e is not None] if None in ends else []
    for shape in shapes:
        for node in ast.walk(shape):
            is_name = isinstance(node, ast.Name | ast.Attribute | ast.Call)
            if is_name and isinstance(node, ast.expr) and rank_kind(script, node) == "global":
                return script.show(node)
    return ""


flags = {
    "rank + 1": """
import torch, torch.distributed as dist
rank = dist.get_rank()
x = torch.ones(rank + 1, device="cuda")
dist.all_reduce(x)
""",
    "through .cuda()": """
import torch, torch.distributed as dist
parts = []
dist.all_gather(parts, torch.zeros(dist.get_rank(), 4).cuda())
""",
}
passes = {
    "filled with the rank": """
import torch, torch.distributed as dist
rank = dist.get_rank()
x = torch.full((4,), rank, device="cuda")
y = torch.ones(8, device="cuda") * rank
dist.all_reduce(x)
dist.all_reduce(y)
""",
    "splits": """
import torch, torch.distributed as dist
rank = dist.get_rank()
dist.all_to_all_single(torch.empty(rank), x, [rank] * 4, sizes)
""",
    "equal shares": """
import torch, torch.distributed as dist
rank = dist.get_rank()
share = data[rank * 4 : (rank + 1) * 4]
dist.all_reduce(share)
""",
}
