"""The ranks meet through a file with a fixed name.

The file has to be on a file system that all hosts share and that locks properly, and has to be fresh: one left over
by a crashed run makes the next one wait for ever (`Wait timeout`). `env://`, as torchrun sets it, needs no file.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.flow import INIT
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script, argument, constant
from nccldoctor.model.finding import Confidence, Severity

code = "CODE27"
name = "file-rendezvous"
severity = Severity.WARNING
confidence = Confidence.MEDIUM
remedy = (
    'dist.init_process_group("nccl")  # env://, under torchrun',
    'init_method=f"file://{fresh_folder}/rendezvous"  # if it must be: a new file for each run, deleted after',
)


def check(script: Script) -> Iterator[Hit]:
    for call in script.calls_to(INIT):
        given = argument(call, 1, "init_method")
        if given is None:
            continue
        path = constant(script.settled(given))
        if isinstance(path, str) and path.startswith("file://"):
            sureness = Confidence.LOW if path.startswith("file:///tmp") or _one_rank(call) else None
            yield Hit(
                given,
                f"The ranks meet in `{path}`: a file left over, or not shared, makes them wait",
                sureness,
            )


def _one_rank(call: ast.Call) -> bool:
    return constant(argument(call, 3, "world_size")) == 1


flags = {
    "a fixed file": """
import torch.distributed as dist
dist.init_process_group("nccl", init_method="file:///shared/sync", rank=r, world_size=n)
""",
}
passes = {
    "env": """
import torch.distributed as dist
dist.init_process_group("nccl", init_method="env://")
""",
    "a fresh file": """
import torch.distributed as dist
dist.init_process_group("gloo", init_method=f"file://{folder}/sync", rank=r, world_size=n)
""",
}
