"""Some ranks make a collective that the others never make.

`if rank == 0: save(); dist.barrier()` hangs: rank 0 waits in the barrier, the others are in the next step's
all_reduce, until the watchdog ends the job ten minutes later. The same happens after `if rank != 0: return`, or when
the collective is hidden in a function that only rank 0 calls. What counts is what each rank does: a barrier in both
branches, or one for the others before and one for rank 0 after, is right and not flagged; nor are calls with a
`group=` of their own, which may hold just those ranks; nor is a rank that stops with an exception.
"""

from collections.abc import Iterator

from nccldoctor.lint.collectives import Kind
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script
from nccldoctor.lint.uneven import Uneven, uneven
from nccldoctor.model.finding import Confidence, Severity

code = "CODE04"
name = "collective-under-rank-guard"
severity = Severity.ERROR
confidence = Confidence.HIGH
remedy = (
    "move the collective out of the branch, so that every rank makes it",
    "if dist.get_rank() == 0: save(model)  # only the work stays guarded",
    "dist.barrier()  # all ranks",
)


def check(script: Script) -> Iterator[Hit]:
    for case in uneven(script):
        if case.step.collective.kind is Kind.GROUP:
            continue
        sureness = case.confidence
        if case.step.collective.kind is Kind.STATE and sureness is Confidence.HIGH:
            sureness = Confidence.MEDIUM
        yield Hit(case.step.node, _title(script, case), sureness, also=case.because)


def _title(script: Script, case: Uneven) -> str:
    made = f"`{case.step.collective.name}`"
    if case.step.via is not None:
        made += f" (in `{case.step.via.name}`)"
    if case.decorator:
        return f"{made} runs on one rank only, because of `@{case.decorator}`; the others never make it"
    where = f" (line {case.because[0].lineno})" if case.because else ""
    if case.left:
        return f"{made} is not reached by the ranks that leave at `{case.test}`{where}"
    return (
        f"{made} runs only on some ranks, because of `{case.test}`{where}; the others never make it"
    )


flags = {
    "a loop, and a choice": """
import torch.distributed as dist
def wait(rank, x):
    while rank == 0:
        dist.barrier()
    return dist.all_reduce(x) if rank == 0 else None
""",
    "barrier on rank 0": """
import torch
import torch.distributed as dist
def save(model):
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "m.pt")
        dist.barrier()
""",
    "the others have left": """
import os
from torch import distributed as D
def evaluate(x):
    rank = int(os.environ["RANK"])
    if rank != 0:
        return None
    D.all_reduce(x)
    return x
""",
    "one level down": """
import torch.distributed as dist
def metrics(x):
    dist.all_reduce(x)
    return x
def log(x, step):
    if step % 100 == 0 and is_main_process():
        print(metrics(x))
""",
    "decorated": """
import torch.distributed as dist
from pytorch_lightning.utilities import rank_zero_only
@rank_zero_only
def finish():
    dist.barrier()
""",
    "accelerate": """
from accelerate import Accelerator
accelerator = Accelerator()
if accelerator.is_main_process:
    accelerator.wait_for_everyone()
    save()
""",
    "an argument, and an expression": """
import torch.distributed as dist
def main(args):
    args.local_rank == 0 and dist.barrier()
""",
    "continue in a loop": """
import torch.distributed as dist
def train(rank, loader, x):
    for batch in loader:
        step(batch)
        if rank > 0:
            continue
        dist.all_reduce(x)
""",
}
passes = {
    "the call itself says that there is no barrier in it": """
import torch.distributed as dist
def load(rank, evaluate=False):
    if rank not in (-1, 0) and not evaluate:
        dist.barrier()
    data = read()
    if rank == 0 and not evaluate:
        dist.barrier()
    return data
def main(rank):
    load(rank)
    if rank in (-1, 0):
        load(rank, evaluate=True)
""",
    "both branches": """
import torch.distributed as dist
def load(rank, name):
    if rank == 0:
        download(name)
        dist.barrier()
    else:
        dist.barrier()
        wait(name)
""",
    "first the others, then rank 0": """
from contextlib import contextmanager
import torch.distributed as dist
@contextmanager
def zero_first(local_rank):
    if local_rank not in [-1, 0]:
        dist.barrier()
    yield
    if local_rank == 0:
        dist.barrier()
""",
    "a group of those ranks": """
import torch.distributed as dist
ranks = [0, 1, 2, 3]
group = dist.new_group(ranks)
if dist.get_rank() in ranks:
    dist.all_reduce(tensor, group=group)
""",
    "the same on all ranks": """
import torch.distributed as dist
def reduce(x, local_rank, world_size):
    if local_rank != -1 and world_size > 1 and dist.is_initialized():
        dist.all_reduce(x)
    return x
""",
    "broadcast split into its sides": """
import torch.distributed as dist
def share(objects, rank):
    if rank == 0:
        dist.broadcast_object_list(objects, src=0)
    else:
        box = [None]
        dist.broadcast_object_list(box, src=0)
""",
    "point to point": """
import torch.distributed as dist
def ring(x, rank):
    if rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
""",
    "another library": """
import horovod.torch as hvd
if hvd.rank() == 0:
    hvd.allreduce(x)
""",
    "guarded work, open collective": """
import torch, torch.distributed as dist
def save(model):
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "m.pt")
    dist.barrier()
""",
}
