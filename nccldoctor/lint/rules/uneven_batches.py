"""Ranks may see different data than meant: the same on every rank, other numbers of batches, or never reshuffled.

A DataLoader without a DistributedSampler gives every rank the whole data set; a sampler of another kind may give
ranks different numbers of batches, and the rank with fewer ends its epoch while the others wait in all_reduce. With
a DistributedSampler the counts are equal, but without `sampler.set_epoch(epoch)` every epoch has the same order.
Data sets that shard themselves, batch samplers, `Join` and loops over a number of steps are left alone.
"""

import ast
from collections.abc import Iterator, Sequence

from nccldoctor.lint.flow import INIT
from nccldoctor.lint.names import last_name
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script, argument, constant
from nccldoctor.model.finding import Confidence, Severity

code = "CODE18"
name = "uneven-batches"
severity = Severity.WARNING
confidence = Confidence.MEDIUM
remedy = (
    "sampler = DistributedSampler(dataset)",
    "loader = DataLoader(dataset, sampler=sampler, drop_last=True)",
    "for epoch in range(epochs): sampler.set_epoch(epoch)",
)

_DDP = "torch.nn.parallel.DistributedDataParallel"
_LOADER = "torch.utils.data.DataLoader"
_SAMPLER = "torch.utils.data.DistributedSampler"
_OTHER_SAMPLERS = ("RandomSampler", "WeightedRandomSampler", "SubsetRandomSampler")
_OWN_WAYS = (
    "IterableDataset",
    "batch_sampler",
    "islice",
    "max_steps",
    "Join(",
    ".join(",
    "shard",
    "StatefulDistributed",
)


def check(script: Script) -> Iterator[Hit]:
    loaders = list(script.calls_to(_LOADER))
    samplers = list(script.calls_to(_SAMPLER))
    if (
        loaders
        and any(script.calls_to(_DDP))
        and not any(word in script.text for word in _OWN_WAYS)
    ):
        yield from _unshared(script, loaders, samplers)
    if samplers and "set_epoch" not in script.text:
        yield from _never_reshuffled(script, samplers)


def _unshared(
    script: Script, loaders: Sequence[ast.Call], samplers: Sequence[ast.Call]
) -> Iterator[Hit]:
    for loader in loaders:
        sampler = argument(loader, 3, "sampler")
        if (
            any(k.arg is None for k in loader.keywords)
            or constant(argument(loader, 7, "drop_last")) is True
        ):
            continue
        if sampler is None:
            shuffled = constant(argument(loader, 2, "shuffle")) is True
            if shuffled and not samplers and any(script.calls_to(INIT)):
                yield Hit(
                    loader,
                    "The DataLoader has no DistributedSampler: every rank goes over all the data",
                )
            continue
        made = script.settled(sampler)
        if isinstance(made, ast.Call) and last_name(made.func) in _OTHER_SAMPLERS and not samplers:
            title = (
                f"The DataLoader of a DDP job has a `{last_name(made.func)}`: it does not share the data"
                " out, and ranks may end at different steps"
            )
            yield Hit(loader, title, also=(made,))


def _never_reshuffled(script: Script, samplers: Sequence[ast.Call]) -> Iterator[Hit]:
    for sampler in samplers:
        if constant(argument(sampler, -1, "shuffle")) is False or not _epochs(script):
            continue
        yield Hit(
            sampler,
            "The DistributedSampler is never told the epoch: every epoch has the same order",
            severity=Severity.NOTE,
            remedy=("for epoch in range(epochs): sampler.set_epoch(epoch)",),
        )
        return


def _epochs(script: Script) -> bool:
    """Whether the file itself loops over epochs and takes steps in that loop."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.For) and "epoch" in ast.unparse(node.target).casefold():
            return any(
                isinstance(n, ast.Call) for statement in node.body for n in ast.walk(statement)
            )
    return False


flags = {
    "no sampler": """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
dist.init_process_group("nccl")
model = DDP(model)
loader = DataLoader(data, batch_size=32, shuffle=True)
""",
    "another sampler": """
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, RandomSampler
model = DDP(model)
loader = DataLoader(data, batch_size=32, sampler=RandomSampler(data))
""",
    "the same order for ever": """
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
loader = DataLoader(data, sampler=DistributedSampler(data))
for epoch in range(10):
    train(loader)
""",
}
passes = {
    "as it should be": """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
dist.init_process_group("nccl")
model = DDP(model)
sampler = DistributedSampler(data)
loader = DataLoader(data, sampler=sampler)
test = DataLoader(test_data, shuffle=False)
for epoch in range(10):
    sampler.set_epoch(epoch)
    train(loader)
""",
}
