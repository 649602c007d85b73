"""A process joins NCCL before it has chosen its GPU, or never chooses one.

Every process then works on GPU 0, or NCCL guesses: memory of GPU 0 fills with eight contexts, and NCCL stops with
`Duplicate GPU detected`. Choose the GPU first, then start the group, and say it to the group with `device_id=`.
Frameworks that place processes themselves, and scripts that give every tensor its own device, are left alone.
"""

import ast
from collections.abc import Iterator, Sequence

from nccldoctor.lint.collectives import Kind, collective
from nccldoctor.lint.flow import INIT, Stop, backend_of, flow, may_be_nccl, scopes
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script, argument, constant
from nccldoctor.model.finding import Confidence, Severity

code = "CODE03"
name = "device-not-set"
severity = Severity.WARNING
confidence = Confidence.MEDIUM
remedy = (
    'local_rank = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(local_rank)  # first',
    'dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))  # then',
)

_SETTERS = ("torch.cuda.set_device", "torch.accelerator.set_device_index", "torch.cuda.device")
_FRAMEWORKS = (
    "deepspeed",
    "accelerate",
    "lightning",
    "pytorch_lightning",
    "ray",
    "composer",
    "transformers",
)


def check(script: Script) -> Iterator[Hit]:
    inits = [c for c in script.calls_to(INIT) if may_be_nccl(backend_of(script, c))]
    if not inits or script.names.imported(*_FRAMEWORKS):
        return
    if any(argument(c, -1, "device_id") is not None for c in inits):
        return
    if any("set_device" in script.show(c.node.func) for c in script.calls) or _set_otherwise(
        script
    ):
        yield from _late(script)
    else:
        yield from _never(script, inits)


def _set_otherwise(script: Script) -> bool:
    return "CUDA_VISIBLE_DEVICES" in script.text or any(script.calls_to(*_SETTERS))


def _never(script: Script, inits: Sequence[ast.Call]) -> Iterator[Hit]:
    """No GPU is ever chosen, and tensors go to "the" GPU."""
    if "local_rank" in script.text.casefold() or "cuda:{" in script.text:
        return
    default = [c.node for c in script.calls if _default_gpu(c.node)]
    if default and backend_of(script, inits[0]) == "nccl":
        title = f"No GPU is chosen for this process, so `{script.show(default[0])}` is GPU 0 on every rank"
        yield Hit(inits[0], title, Confidence.HIGH, Severity.ERROR, also=(default[0],))


def _default_gpu(node: ast.Call) -> bool:
    if not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr == "cuda":
        return not node.args and not node.keywords
    return node.func.attr == "to" and bool(node.args) and constant(node.args[0]) == "cuda"


def _late(script: Script) -> Iterator[Hit]:
    """The GPU is chosen after the group has started, or even after a collective."""
    seen: set[ast.Call] = set()
    for scope in scopes(script):
        stops = list(flow(script, scope))
        start = next((i for i, s in enumerate(stops) if s.call.dotted == INIT), None)
        bound = next((i for i, s in enumerate(stops) if s.call.dotted in _SETTERS), None)
        if start is None or bound is None or bound < start or stops[bound].call.node in seen:
            continue
        if not may_be_nccl(backend_of(script, stops[start].call.node)):
            continue
        seen.add(stops[bound].call.node)
        between = _first_collective(stops[start:bound])
        where = stops[bound].call.node
        if between is None:
            title = "The GPU is chosen only after `init_process_group`"
            yield Hit(where, title, Confidence.LOW, Severity.NOTE, also=(stops[start].call.node,))
        elif _same_branch(script, stops[start].node, between.node, stops[bound].node):
            called = script.show(between.call.node.func)
            title = f"`{called}` runs before this process has chosen its GPU: NCCL guesses one"
            yield Hit(between.call.node, title, Confidence.HIGH, Severity.ERROR, also=(where,))


def _first_collective(stops: Sequence[Stop]) -> Stop | None:
    for stop in stops:
        found = collective(stop.script, stop.call)
        if found is not None and found.kind is Kind.DATA and found.group is None:
            return stop
    return None


def _same_branch(script: Script, *nodes: ast.Call) -> bool:
    """Whether the first of these calls stands in no branch that a later one does not stand in."""
    branches = [
        {id(a) for a in script.ancestors(n) if isinstance(a, ast.If | ast.Try | ast.Match)}
        for n in nodes
    ]
    return all(b == branches[0] for b in branches)


flags = {
    "barrier, then set_device": """
import os, torch
import torch.distributed as dist
dist.init_process_group("nccl")
dist.barrier()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
""",
    "everything on GPU 0": """
import torch.distributed as dist
dist.init_process_group(backend="nccl")
model = Net().cuda()
""",
    "only after the start, in a helper": """
import os, torch
import torch.distributed as dist
def setup():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
""",
}
passes = {
    "first the GPU": """
import os, torch
import torch.distributed as dist
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
dist.barrier()
""",
    "told to the group": """
import os, torch
import torch.distributed as dist
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl", device_id=device)
dist.barrier()
""",
    "gloo": """
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
""",
    "one GPU is visible": """
import os
os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_ID"]
import torch.distributed as dist
dist.init_process_group("nccl")
model = Net().cuda()
""",
}
