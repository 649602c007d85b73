"""Some ranks wait for their GPU between asynchronous collectives, the others do not.

`.item()`, `.cpu()` or printing a tensor waits for everything that is queued. When only rank 0 does so while
collectives of several groups are in flight, its queue drains in another order than the others', and the groups can
wait for each other. Without asynchronous work in the loop this is only slow, and not flagged.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.collectives import collectives
from nccldoctor.lint.names import last_name
from nccldoctor.lint.ranks import splits
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script, argument, constant, within
from nccldoctor.model.finding import Confidence, Severity

code = "CODE25"
name = "sync-under-rank-guard"
severity = Severity.WARNING
confidence = Confidence.MEDIUM
remedy = (
    "for handle in handles: handle.wait()  # before rank 0 looks at numbers",
    "value = loss.detach().item()  # on every rank, and only print on rank 0",
)

_SYNCS = ("item", "cpu", "tolist", "numpy")


def check(script: Script) -> Iterator[Hit]:
    started = [
        c.node for c in collectives(script) if constant(argument(c.node, -1, "async_op")) is True
    ]
    if not started:
        return
    for node in script.ifs:
        if node.orelse or not splits(script, node.test):
            continue
        sync = _sync(node)
        loop = next(script.loops(node), None)
        if sync is None or loop is None:
            continue
        before = [s for s in started if script.inside(s, loop) and s.lineno < node.lineno]
        if before and not _waited(script, before[-1], node):
            title = f"`{script.show(sync)}` waits for the GPU on some ranks only, with collectives in flight"
            yield Hit(sync, title, also=(before[-1], node))


def _sync(node: ast.If) -> ast.Call | None:
    for statement in node.body:
        for call in within(statement):
            if isinstance(call, ast.Call) and last_name(call.func) in _SYNCS and not call.args:
                return call
    return None


def _waited(script: Script, started: ast.Call, until: ast.If) -> bool:
    text = "\n".join(script.lines[started.lineno - 1 : until.lineno])
    return ".wait(" in text or "synchronize(" in text


flags = {
    "rank 0 looks at the loss": """
import torch.distributed as dist
def train(rank, loader, a, b):
    handles = []
    for batch in loader:
        loss = step(batch)
        handles.append(dist.all_reduce(batch.x, group=a, async_op=True))
        if rank == 0:
            print(loss.item())
        handles.append(dist.all_reduce(batch.y, group=b, async_op=True))
""",
}
passes = {
    "after the wait": """
import torch.distributed as dist
def train(rank, loader, a):
    for batch in loader:
        loss = step(batch)
        handle = dist.all_reduce(batch.x, group=a, async_op=True)
        handle.wait()
        if rank == 0:
            print(loss.item())
""",
    "nothing in flight": """
import torch.distributed as dist
def train(rank, loader):
    for batch in loader:
        loss = step(batch)
        dist.all_reduce(loss)
        if rank == 0:
            print(loss.item())
""",
}
