"""A process group lists its ranks as plain numbers.

`new_group([0, 4])` means "GPU 0 of two hosts" only on hosts of four GPUs: on eight-GPU hosts both ranks are on one
host, and in a job of four ranks the call fails with `Rank 4 is out of range`. Groups by host are better computed,
or left to `init_device_mesh`; and NCCL already builds trees inside and between hosts by itself.
"""

import ast
import re
from collections.abc import Iterator

from nccldoctor.lint.names import last_name
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script, argument
from nccldoctor.model.finding import Confidence, Severity

code = "CODE07"
name = "literal-group-ranks"
severity = Severity.NOTE
confidence = Confidence.MEDIUM
remedy = (
    "mesh = init_device_mesh('cuda', (hosts, gpus_per_host), mesh_dim_names=('inter', 'intra'))",
    "inter, intra = mesh['inter'].get_group(), mesh['intra'].get_group()",
)

_PLACE = re.compile(r"int(er|ra)|node|host|machine", re.IGNORECASE)


def check(script: Script) -> Iterator[Hit]:
    for call in script.calls_to("torch.distributed.new_group"):
        given = argument(call, 0, "ranks")
        ranks = _literal(script, given) if given is not None else []
        if not ranks:
            continue
        what = f"`new_group({ranks})`"
        if _PLACE.search(_target(script, call)):
            title = f"{what} is meant for a place, but which host rank {max(ranks)} is on depends on the launch"
            yield Hit(call, title, severity=Severity.WARNING)
        else:
            yield Hit(
                call, f"{what} works only in jobs of more than {max(ranks)} ranks, laid out as now"
            )


def _literal(script: Script, given: ast.expr) -> list[int]:
    settled = script.settled(given)
    if not isinstance(settled, ast.List | ast.Tuple) or len(settled.elts) < 2:
        return []
    values = [e.value for e in settled.elts if isinstance(e, ast.Constant)]
    ranks = [v for v in values if isinstance(v, int)]
    return ranks if len(ranks) == len(settled.elts) else []


def _target(script: Script, call: ast.Call) -> str:
    """The name that the group gets, and the comment on its line."""
    statement = script.statement(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    line = script.lines[statement.lineno - 1].partition("#")[2]
    return " ".join([last_name(t) for t in targets] + [line])


flags = {
    "between hosts": """
import torch.distributed as dist
inter_node_group = dist.new_group([0, 4])
""",
    "the first four": """
import torch.distributed as dist
ranks = [0, 1, 2, 3]
group = dist.new_group(ranks)
""",
}
passes = {
    "computed": """
import torch.distributed as dist
group = dist.new_group(list(range(dist.get_world_size() // 2)))
""",
    "one rank": """
import torch.distributed as dist
group = dist.new_group([0])
""",
}
