"""A script starts its own processes, and also expects a launcher to have started it.

Under `torchrun --nproc-per-node 8` each of the eight processes then spawns eight more: 64 processes fight for eight
GPUs and one port. Start the processes in one place: with torchrun, read LOCAL_RANK; with `mp.spawn`, run it with
plain `python`. A script that first looks whether a launcher is there is right.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.flow import INIT
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script, constant
from nccldoctor.model.finding import Confidence, Severity

code = "CODE12"
name = "double-launch"
severity = Severity.WARNING
confidence = Confidence.MEDIUM
remedy = (
    "torchrun --nproc-per-node 8 train.py  # and no mp.spawn in train.py",
    'if "LOCAL_RANK" in os.environ: main() else: mp.spawn(...)',
)

_SPAWNS = ("torch.multiprocessing.spawn", "torch.multiprocessing.start_processes")
_LAUNCHER = ("LOCAL_RANK", "RANK")


def check(script: Script) -> Iterator[Hit]:
    spawn = next(script.calls_to(*_SPAWNS), None)
    if spawn is None or not any(script.calls_to(INIT)):
        return
    read = None
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Compare) and script.dotted(node.comparators[0]) == "os.environ":
            return
        if not isinstance(node, ast.Subscript) or constant(node.slice) not in _LAUNCHER:
            continue
        if script.dotted(node.value) == "os.environ":
            if isinstance(node.ctx, ast.Store):
                return
            read = read or node
    if any(
        script.dotted(c.node.func) in ("os.environ.get", "os.getenv")
        and c.node.args
        and constant(c.node.args[0]) in _LAUNCHER
        for c in script.calls
    ):
        return
    if read is not None:
        title = (
            f"`{script.show(spawn.func)}` starts processes, and line {read.lineno} reads"
            f" `{script.show(read)}`, which a launcher sets: with both, each process starts more"
        )
        yield Hit(spawn, title, also=(read,))


flags = {
    "both": """
import os
import torch.distributed as dist
import torch.multiprocessing as mp
def work(i):
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
if __name__ == "__main__":
    mp.spawn(work, nprocs=8)
""",
}
passes = {
    "looks first": """
import os
import torch.distributed as dist
import torch.multiprocessing as mp
def work(i):
    dist.init_process_group("nccl")
if __name__ == "__main__":
    if "LOCAL_RANK" in os.environ:
        work(int(os.environ["LOCAL_RANK"]))
    else:
        mp.spawn(work, nprocs=8)
""",
    "only spawn": """
import torch.distributed as dist
import torch.multiprocessing as mp
def work(rank):
    dist.init_process_group("nccl", rank=rank, world_size=8)
mp.spawn(work, nprocs=8)
""",
}
