"""Gradients are reduced one parameter at a time.

Thousands of small collectives cost more than a few large ones, and none overlaps with backward. Worse, `param.grad`
is None for parameters that took no part in the step: where that differs between ranks, the ranks call different
numbers of all_reduce and hang. DistributedDataParallel does this in 25 MB buckets, during backward.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.names import last_name
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script
from nccldoctor.model.finding import Confidence, Severity

code = "CODE09"
name = "per-parameter-all-reduce"
severity = Severity.WARNING
confidence = Confidence.MEDIUM
remedy = (
    "model = DistributedDataParallel(model, device_ids=[local_rank])",
    "with model.no_sync(): loss.backward()  # all micro-steps but the last",
)


def check(script: Script) -> Iterator[Hit]:
    for call in script.calls_to("torch.distributed.all_reduce"):
        grad = call.args[0] if call.args else None
        if grad is None or "grad" not in script.show(grad):
            continue
        for loop in script.loops(call):
            if isinstance(loop, ast.While) or not _over_parameters(loop.iter):
                continue
            if not _of_loop(loop.target, grad):
                continue
            guard = _none_guard(script, call, loop)
            title = f"`{script.show(call.func)}` runs once for every parameter"
            if guard is not None:
                title += "; ranks where another gradient is None make fewer calls, and hang"
            yield Hit(call, title, also=() if guard is None else (guard,))
            break


def _over_parameters(iterated: ast.expr) -> bool:
    return any(
        isinstance(n, ast.Call) and last_name(n.func) in ("parameters", "named_parameters")
        for n in ast.walk(iterated)
    )


def _of_loop(target: ast.expr, grad: ast.expr) -> bool:
    names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(grad))


def _none_guard(script: Script, call: ast.Call, loop: ast.AST) -> ast.If | None:
    for node in ast.walk(loop):
        if isinstance(node, ast.If) and "grad is" in ast.unparse(node.test):
            return node
    return None


flags = {
    "a loop": """
import torch.distributed as dist
def sync(model, world_size):
    for param in model.parameters():
        dist.all_reduce(param.grad, op=dist.ReduceOp.SUM)
        param.grad /= world_size
""",
    "skipping None": """
import torch.distributed as dist
def sync(model):
    for name, p in model.named_parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad.data)
""",
}
passes = {
    "one flat buffer": """
import torch, torch.distributed as dist
def sync(model):
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)
""",
    "parameters once, at the start": """
import torch.distributed as dist
def sync(model):
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
""",
}
