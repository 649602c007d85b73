"""A tensor on the CPU is given to a group that has only NCCL.

NCCL moves data between GPUs, so the call fails with `No backend type associated with device type cpu`. Move the
tensor to the GPU, or make the group with a backend for each device.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.collectives import Kind, collective
from nccldoctor.lint.flow import INIT, backend_of
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Call, Script, argument
from nccldoctor.model.finding import Confidence, Severity

code = "CODE16"
name = "cpu-tensor-on-nccl"
severity = Severity.ERROR
confidence = Confidence.MEDIUM
remedy = (
    'tensor = torch.zeros(1, device="cuda")',
    'dist.init_process_group("cpu:gloo,cuda:nccl")  # CPU tensors then go over gloo',
)

_MAKERS = frozenset(
    f"torch.{n}"
    for n in ("tensor", "zeros", "ones", "empty", "full", "rand", "randn", "arange", "Tensor")
)
_DEFAULTS = ("set_default_device", "set_default_tensor_type", "with torch.device(", "with device")


def check(script: Script) -> Iterator[Hit]:
    if any(word in script.text for word in _DEFAULTS):
        return
    groups = [backend_of(script, c) for c in script.calls_to(INIT, "torch.distributed.new_group")]
    stated = [b for b in groups if b]
    if not stated or None in groups or not all(b in ("nccl", "rccl", "cuda:nccl") for b in stated):
        return
    if any(backend_of(script, c) == "" for c in script.calls_to(INIT)):
        return
    for call in script.calls:
        tensor = _cpu_tensor(script, call)
        if tensor is not None:
            made = script.settled(tensor)
            title = f"`{script.show(call.node.func)}` gets `{script.show(tensor)}`, a CPU tensor, in an NCCL group"
            yield Hit(call.node, title, also=(made,) if made is not tensor else ())


def _cpu_tensor(script: Script, call: Call) -> ast.expr | None:
    found = collective(script, call)
    if found is None or found.kind is not Kind.DATA or not found.name.startswith("dist."):
        return None
    if "object" in found.name or "barrier" in found.name:
        return None
    tensor = argument(call.node, 0, "tensor")
    if tensor is None:
        return None
    made = script.settled(tensor)
    if not isinstance(made, ast.Call):
        return None
    if isinstance(made.func, ast.Attribute) and made.func.attr == "cpu" and not made.args:
        return tensor
    if script.dotted(made.func) in _MAKERS and not _placed(made) and not _moved(script, tensor):
        return tensor
    return None


def _placed(made: ast.Call) -> bool:
    """Whether the tensor is given a device, or takes that of another."""
    return any(k.arg in ("device", None) for k in made.keywords)


def _moved(script: Script, tensor: ast.expr) -> bool:
    return isinstance(tensor, ast.Name) and f"{tensor.id}.data" in script.text


flags = {
    "made on the CPU": """
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
total = torch.zeros(1)
dist.all_reduce(total)
""",
    "the seed's exchange through the CPU": """
import torch.distributed as dist
nvidia_group = dist.new_group([0, 1], backend="nccl")
cpu_tensor = tensor.cpu()
dist.all_reduce(cpu_tensor, group=nvidia_group)
""",
}
passes = {
    "on the GPU": """
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
total = torch.zeros(1, device="cuda")
dist.all_reduce(total)
other = torch.tensor([1.0]).cuda()
dist.all_reduce(other)
third = torch.ones(1)
third = third.to(device)
dist.all_reduce(third)
""",
    "a group for both": """
import torch
import torch.distributed as dist
dist.init_process_group("cpu:gloo,cuda:nccl")
dist.all_reduce(torch.zeros(1))
""",
    "gloo is there too": """
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
cpu = dist.new_group(backend="gloo")
dist.all_reduce(torch.zeros(1), group=cpu)
""",
}
