"""The global rank is used as a GPU number.

On the second host of eight GPUs rank 8 asks for GPU 8 and gets `invalid device ordinal`. The number of a GPU on its
host is LOCAL_RANK, which torchrun sets. A script that starts its own processes with `mp.spawn`, and so runs on one
host only, is right: there the two numbers are the same.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.names import last_name
from nccldoctor.lint.ranks import rank_kind
from nccldoctor.lint.rule import Edit, Hit
from nccldoctor.lint.script import Script, argument
from nccldoctor.model.finding import Confidence, Severity

code = "CODE02"
name = "global-rank-as-device"
severity = Severity.ERROR
confidence = Confidence.HIGH
remedy = (
    'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # before init_process_group; torchrun sets it',
    "torch.cuda.set_device(rank % torch.cuda.device_count())  # where nobody sets LOCAL_RANK",
)

_SETTERS = {
    "torch.cuda.set_device": 0,
    "torch.cuda.device": 0,
    "torch.accelerator.set_device_index": 0,
}


def check(script: Script) -> Iterator[Hit]:
    if not script.names.imported("torch"):
        return
    for call in script.calls:
        device = _device(script, call.node, call.dotted)
        if device is None or rank_kind(script, device) != "global":
            continue
        sureness = _sureness(script, device)
        what = script.show(call.node.func)
        title = (
            f"`{what}` gets the global rank `{script.show(device)}` as the GPU number:"
            " it does not exist on the second host"
        )
        simple = call.dotted in _SETTERS and sureness is not Confidence.LOW
        yield Hit(call.node, title, sureness, edits=_edits(script, device) if simple else ())


def _device(script: Script, node: ast.Call, dotted: str) -> ast.expr | None:
    """The expression that numbers the GPU in this call, if the call takes one."""
    if dotted in _SETTERS:
        return argument(node, 0, "device") or argument(node, 0, "device_index")
    if dotted == "torch.device":
        if len(node.args) == 2:
            return node.args[1]
        return _numbered(node.args[0]) if node.args else None
    if dotted == "torch.nn.parallel.DistributedDataParallel":
        listed = argument(node, 1, "device_ids")
        if isinstance(listed, ast.List) and len(listed.elts) == 1:
            return listed.elts[0]
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("cuda", "to"):
        given = argument(node, 0, "device")
        if given is None or dotted:
            return None
        return _numbered(given) or (given if isinstance(given, ast.Name) else None)
    return None


def _numbered(given: ast.expr) -> ast.expr | None:
    """The number in `f"cuda:{number}"`."""
    if isinstance(given, ast.JoinedStr) and len(given.values) == 2:
        head, tail = given.values
        if isinstance(head, ast.Constant) and head.value == "cuda:":
            return tail.value if isinstance(tail, ast.FormattedValue) else None
    return None


def _sureness(script: Script, device: ast.expr) -> Confidence:
    text = script.text
    if script.is_test:
        return Confidence.LOW
    if any(
        w in text for w in ("mp.spawn", "multiprocessing.spawn", ".Process(", "start_processes")
    ):
        return Confidence.LOW
    if "MultiProcessTestCase" in text or "MultiProcContinuousTest" in text or "ray." in text:
        return Confidence.LOW
    settled = script.settled(device)
    if isinstance(settled, ast.Call) and last_name(settled.func) == "get_rank" and settled.args:
        return Confidence.LOW
    if isinstance(settled, ast.Call) and last_name(settled.func) == "int" and settled.args:
        settled = script.settled(settled.args[0])
    plain = isinstance(settled, ast.Name | ast.Attribute)
    if plain and last_name(settled) not in ("global_rank", "ddp_rank"):
        return Confidence.MEDIUM
    return Confidence.HIGH


def _edits(script: Script, device: ast.expr) -> tuple[Edit, ...]:
    if script.dotted(ast.parse("os.environ", mode="eval").body) != "os.environ":
        return ()
    if device.end_lineno is None or device.end_col_offset is None:
        return ()
    place = (device.lineno, device.col_offset, device.end_lineno, device.end_col_offset)
    return (Edit(*place, 'int(os.environ["LOCAL_RANK"])'),)


flags = {
    "set_device with get_rank": """
import os
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
""",
    "a parameter named rank": """
import torch
import torch.distributed as dist
def setup(rank, world_size):
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
""",
    "in a device string": """
import os
import torch
device = torch.device(f"cuda:{int(os.environ['RANK'])}")
""",
    "device_ids of DDP": """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(model, device_ids=[dist.get_rank()])
""",
}
passes = {
    "local rank": """
import os
import torch
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
device = torch.device("cuda", local_rank)
""",
    "modulo": """
import torch
import torch.distributed as dist
rank = dist.get_rank()
torch.cuda.set_device(rank % torch.cuda.device_count())
device_id = rank % torch.cuda.device_count()
model.to(device_id)
""",
    "a device": """
import torch
device = torch.device("cuda")
model.to(device)
""",
}
