"""Two groups are used in one order on some ranks and in the other order on others.

Rank 0 waits in group A for a rank that waits in group B for rank 0. NCCL runs the calls of *one* group in order;
between groups the order is the program's, and has to be the same on all ranks that share both.
"""

import ast
from collections.abc import Iterator, Sequence

from nccldoctor.lint.collectives import Kind, collective
from nccldoctor.lint.ranks import splits
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Call, Script, within
from nccldoctor.model.finding import Confidence, Severity

code = "CODE21"
name = "group-order-differs"
severity = Severity.ERROR
confidence = Confidence.MEDIUM
remedy = ("use the groups in one order on every rank: first A, then B",)


def check(script: Script) -> Iterator[Hit]:
    for node in script.ifs:
        if not node.orelse or not splits(script, node.test):
            continue
        first, second = _order(script, node.body), _order(script, node.orelse)
        if len(set(first)) > 1 and first != second and sorted(first) == sorted(second):
            title = (
                f"Depending on `{script.show(node.test)}`, collectives go {_words(first)}"
                f" or {_words(second)}: the ranks wait for each other"
            )
            yield Hit(node, title)


def _order(script: Script, body: Sequence[ast.stmt]) -> list[tuple[str, str]]:
    """The data collectives of a block as (name, group), in order."""
    found = []
    for statement in body:
        for node in within(statement):
            if isinstance(node, ast.Call):
                made = collective(script, Call(node, script.dotted(node.func)))
                if made is not None and made.kind is Kind.DATA:
                    found.append(
                        (made.name, script.show(made.group) if made.group else "the world")
                    )
    return found


def _words(order: Sequence[tuple[str, str]]) -> str:
    return ", then ".join(f"{name} in {group}" for name, group in order)


flags = {
    "two groups": """
import torch.distributed as dist
def exchange(rank, x, a, b):
    if rank % 2 == 0:
        dist.all_reduce(x, group=a)
        dist.all_reduce(x, group=b)
    else:
        dist.all_reduce(x, group=b)
        dist.all_reduce(x, group=a)
""",
}
passes = {
    "one order": """
import torch.distributed as dist
def exchange(rank, x, a, b):
    if rank % 2 == 0:
        dist.all_reduce(x, group=a)
        dist.all_reduce(x, group=b)
    else:
        dist.all_reduce(x, group=a)
        dist.all_reduce(x, group=b)
""",
    "not by rank": """
import torch.distributed as dist
def exchange(first, x, a, b):
    if first:
        dist.all_reduce(x, group=a)
        dist.all_reduce(x, group=b)
    else:
        dist.all_reduce(x, group=b)
        dist.all_reduce(x, group=a)
""",
}
