"""An asynchronous collective is started, and nobody waits for it before the data is used.

With `async_op=True` the call returns a handle, and the tensor is in flight until `handle.wait()`. When the handle is
thrown away, or the tensor is touched before, the numbers are sometimes old and sometimes new. Starting further
collectives meanwhile is fine: those of a group run in their order.
"""

import ast
from collections.abc import Iterator, Sequence

from nccldoctor.lint.collectives import GROUP_POSITION
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script, argument, constant, within
from nccldoctor.model.finding import Confidence, Severity

code = "CODE08"
name = "async-handle-lost"
severity = Severity.WARNING
confidence = Confidence.HIGH
remedy = (
    "handle = dist.all_reduce(tensor, async_op=True)",
    "...  # work that does not touch the tensor",
    "handle.wait()",
)

_TORCH = "torch.distributed."
_HARMLESS = (
    "shape",
    "dtype",
    "device",
    "numel",
    "size",
    "dim",
    "nbytes",
    "element_size",
    "record_stream",
    "is_cuda",
    "is_cpu",
)


def check(script: Script) -> Iterator[Hit]:
    for call in script.calls:
        if not call.dotted.startswith(_TORCH):
            continue
        made = call.dotted[len(_TORCH) :]
        later = made in GROUP_POSITION and constant(argument(call.node, -1, "async_op")) is True
        if not later and made not in ("isend", "irecv"):
            continue
        parent = script.parent(call.node)
        if isinstance(parent, ast.Expr):
            sureness = Confidence.MEDIUM if "synchronize(" in script.text else None
            if _barrier_after(script, call.node):
                sureness = Confidence.LOW
            yield Hit(
                call.node,
                f"`dist.{made}` is started, but its handle is thrown away: nobody waits",
                sureness,
            )
        elif isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            yield from _kept(script, call.node, made, parent, parent.targets[0].id)


def _barrier_after(script: Script, call: ast.Call) -> bool:
    """Whether the function goes on to a barrier, which on NCCL waits for what was started before."""
    scope = script.scope(call)
    barriers = script.calls_to("torch.distributed.barrier", "torch.cuda.synchronize")
    return any(b.lineno > call.lineno and script.scope(b) is scope for b in barriers)


def _kept(
    script: Script, call: ast.Call, made: str, assign: ast.Assign, handle: str
) -> Iterator[Hit]:
    scope = script.scope(call)
    loads = [
        n
        for n in ast.walk(scope)
        if isinstance(n, ast.Name) and n.id == handle and isinstance(n.ctx, ast.Load)
    ]
    if not loads:
        if scope is not script.tree and handle != "_":
            yield Hit(
                call, f"`dist.{made}` is started, but its handle `{handle}` is never waited for"
            )
        return
    tensor = call.args[0] if call.args else None
    if not isinstance(tensor, ast.Name) or made == "isend":
        return
    for statement in _following(script, assign):
        names = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
        if handle in names:
            return
        if _touches(script, statement, tensor.id):
            title = f"`{tensor.id}` is used (line {statement.lineno}) while `dist.{made}` is still in flight"
            yield Hit(call, title, Confidence.MEDIUM, also=(statement,))
            return


def _following(script: Script, assign: ast.Assign) -> Sequence[ast.stmt]:
    parent = script.parent(assign)
    for block in ("body", "orelse", "finalbody"):
        statements = getattr(parent, block, None)
        if isinstance(statements, list) and assign in statements:
            return statements[statements.index(assign) + 1 :]
    return ()


def _touches(script: Script, statement: ast.stmt, tensor: str) -> bool:
    if isinstance(statement, ast.Return | ast.Delete):
        return False
    for node in within(statement):
        if isinstance(node, ast.Name) and node.id == tensor:
            parent = script.parent(node)
            rebound = isinstance(parent, ast.Assign)
            if rebound or _only_started(script, node):
                return False
            if not (isinstance(parent, ast.Attribute) and parent.attr in _HARMLESS):
                return True
    return False


def _only_started(script: Script, node: ast.Name) -> bool:
    """Whether the tensor is only given to another collective, which runs in order behind the first, or kept."""
    parent = script.parent(node)
    if isinstance(parent, ast.Tuple | ast.List):
        return True
    if not isinstance(parent, ast.Call):
        return False
    if script.dotted(parent.func).startswith(_TORCH):
        return True
    return isinstance(parent.func, ast.Attribute) and parent.func.attr in ("append", "put", "len")


flags = {
    "thrown away": """
import torch.distributed as dist
def step(x):
    dist.all_reduce(x, async_op=True)
    return x * 2
""",
    "kept but forgotten": """
import torch.distributed as dist
def step(x):
    work = dist.broadcast(x, 0, async_op=True)
    return x
""",
    "used in between": """
import torch.distributed as dist
def step(x):
    work = dist.all_reduce(x, async_op=True)
    y = x * 2
    work.wait()
    return y
""",
}
passes = {
    "the seed's right example": """
import torch.distributed as dist
handle = dist.all_reduce(tensor, op=dist.ReduceOp.SUM, async_op=True)
other()
handle.wait()
""",
    "stored": """
import torch.distributed as dist
def start(self, tensors):
    self.work = dist.all_reduce(tensors[0], async_op=True)
    works = [dist.all_reduce(t, async_op=True) for t in tensors]
    return works
""",
    "several in flight": """
import torch.distributed as dist
def step(x):
    a = dist.all_reduce(x, async_op=True)
    n = x.numel()
    b = dist.broadcast(x, 0, async_op=True)
    a.wait()
    b.wait()
""",
}
