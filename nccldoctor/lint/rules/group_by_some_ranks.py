"""A process group is made by some ranks only, or with members that each rank computes for itself.

Every rank of the job has to make every `new_group`, member or not, in the same order and with the same ranks: the
group's name is a counter that each rank keeps. When it is out of step, the *next* group hangs or joins the wrong
ranks. The usual right way, a loop over all groups in which each rank keeps its own, is not flagged, nor is
`use_local_synchronization=True`.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.collectives import Kind
from nccldoctor.lint.ranks import rank_kind
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script, argument, constant
from nccldoctor.lint.uneven import uneven
from nccldoctor.model.finding import Confidence, Severity

code = "CODE06"
name = "group-by-some-ranks"
severity = Severity.ERROR
confidence = Confidence.HIGH
remedy = (
    "for ranks in all_groups:  # every rank makes every group, in the same order",
    "    group = dist.new_group(ranks)",
    "    if dist.get_rank() in ranks: mine = group",
    "mesh = init_device_mesh('cuda', (hosts, gpus_per_host))  # makes all of them",
)


def check(script: Script) -> Iterator[Hit]:
    for case in uneven(script):
        node = case.step.collective.node
        if case.step.collective.kind is not Kind.GROUP or _local(node):
            continue
        where = f" (line {case.because[0].lineno})" if case.because else ""
        title = (
            f"`{case.step.collective.name}` is made only by some ranks, because of"
            f" `{case.test or case.decorator}`{where}: the other ranks' group counters fall behind"
        )
        yield Hit(case.step.node, title, case.confidence, also=case.because)
    for call in script.calls_to("torch.distributed.new_group"):
        ranks = argument(call, 0, "ranks")
        if ranks is not None and not _local(call) and (own := _of_rank(script, ranks)):
            title = f"`new_group` gets members computed from this rank's own `{own}`: each rank makes another group"
            yield Hit(call, title)


def _local(call: ast.Call) -> bool:
    given = argument(call, 4, "use_local_synchronization")
    return given is not None and constant(given) is not False


def _of_rank(script: Script, ranks: ast.expr) -> str:
    """The part of the members' expression that is the rank itself, or ""; a group of oneself does no harm."""
    members = script.settled(ranks)
    if isinstance(members, ast.List) and len(members.elts) == 1:
        return ""
    for node in ast.walk(members):
        if not isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
            continue
        if rank_kind(script, node) in ("global", "node"):
            return script.show(node)
    return ""


flags = {
    "under a guard": """
import torch.distributed as dist
def make():
    if dist.get_rank() < 4:
        return dist.new_group([0, 1, 2, 3])
""",
    "members from the own rank": """
import torch.distributed as dist
rank = dist.get_rank()
group = dist.new_group([rank, rank + 1])
""",
    "members of the own host": """
import os
import torch.distributed as dist
node = int(os.environ["RANK"]) // 4
group = dist.new_group(list(range(node * 4, node * 4 + 4)))
""",
}
passes = {
    "each rank alone": """
import torch.distributed as dist
alone = dist.new_group([dist.get_rank()])
""",
    "a loop over all": """
import torch.distributed as dist
def make(world_size, size):
    for first in range(0, world_size, size):
        ranks = list(range(first, first + size))
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            mine = group
    return mine
""",
    "local synchronisation": """
import torch.distributed as dist
rank = dist.get_rank()
group = dist.new_group([rank, rank ^ 1], use_local_synchronization=True)
""",
    "a loop variable called rank": """
import torch.distributed as dist
groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
for rank in range(4):
    groups.append(dist.new_group([rank, rank + 4]))
""",
}
