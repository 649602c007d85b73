"""`nn.DataParallel` is used in a job that has a process group.

DataParallel is one process with a thread for each GPU: every process of the job then takes all GPUs of the host, and
none of its traffic is in the process group. DistributedDataParallel is what such a job wants. A script that takes
one or the other, depending on how it was started, is only noted with low confidence.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.flow import INIT
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script
from nccldoctor.model.finding import Confidence, Severity

code = "CODE26"
name = "dataparallel-with-group"
severity = Severity.WARNING
confidence = Confidence.MEDIUM
remedy = ("model = DistributedDataParallel(model.to(device), device_ids=[local_rank])",)


def check(script: Script) -> Iterator[Hit]:
    if not any(script.calls_to(INIT)):
        return
    either = "DistributedDataParallel" in script.text
    for call in script.calls_to("torch.nn.parallel.DataParallel"):
        title = f"`{script.show(call.func)}` takes all GPUs of the host in every process of the job"
        asked = either or _asked(script, call)
        yield Hit(call, title, Confidence.LOW if asked else None)


def _asked(script: Script, call: ast.Call) -> bool:
    """Whether a branch around the call asks how the script was started, as `RANK == -1` or `args.distributed` does."""
    tests = [
        ast.unparse(a.test).casefold() for a in script.ancestors(call) if isinstance(a, ast.If)
    ]
    return any(
        word in test for test in tests for word in ("rank", "dist", "world", "parallel", "ddp")
    )


flags = {
    "in a distributed job": """
import torch.nn as nn
import torch.distributed as dist
dist.init_process_group("nccl")
model = nn.DataParallel(model)
""",
}
passes = {
    "one process": """
import torch.nn as nn
model = nn.DataParallel(model)
""",
    "DDP": """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
model = DistributedDataParallel(model)
""",
}
