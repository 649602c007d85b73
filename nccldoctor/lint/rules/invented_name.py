"""A name is taken from torch.distributed that is not there.

Articles and chat bots invent functions. `gradient_accumulation_with_all_reduce`, for one, is in no release: use
`no_sync()` for all micro-steps but the last. Names are compared with those of the PyTorch release named in the title
(a later one may have more, so confidence is medium unless the name is known to be invented or to live elsewhere);
imports inside `try`, and those that look at the version first, are left alone.
"""

import ast
import difflib
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from nccldoctor.lint.names import last_name
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Script
from nccldoctor.model.finding import Confidence, Severity

code = "CODE11"
name = "invented-name"
severity = Severity.ERROR
confidence = Confidence.HIGH
remedy = (
    "with ddp_model.no_sync(): loss.backward()  # accumulates; the last micro-step goes without no_sync",
    "python -c 'import torch.distributed as d; print(sorted(dir(d)))'  # what there is",
)

_ELSEWHERE = {
    "torch.benchmark": "torch.utils.benchmark",
    "torch.distributed.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "torch.distributed.DataParallel": "torch.nn.DataParallel",
    "torch.distributed.DistributedSampler": "torch.utils.data.distributed.DistributedSampler",
    "torch.distributed.allreduce": "torch.distributed.all_reduce",
    "torch.distributed.allgather": "torch.distributed.all_gather",
    "torch.distributed.get_local_rank": "torch.distributed.get_node_local_rank",
}
_INVENTED = ("gradient_accumulation_with_all_reduce",)


@lru_cache(maxsize=1)
def known_names() -> tuple[str, dict[str, frozenset[str]]]:
    """The release that the lists come from, and the public names of each module, former ones included."""
    data = json.loads(Path(__file__).parent.with_name("torch_names.json").read_text("utf-8"))
    return data["torch"], {m: frozenset(names.split()) for m, names in data["names"].items()}


def check(script: Script) -> Iterator[Hit]:
    if not script.names.imported("torch"):
        return
    for node in script.imports:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for imported in node.names:
                yield from _judge(script, node, node.module, imported.name)
    seen: set[tuple[str, str]] = set()
    for found in script.attributes:
        dotted = script.names.written(found)
        home, _, last = dotted.rpartition(".")
        if home.startswith("torch") and (home, last) not in seen:
            seen.add((home, last))
            yield from _judge(script, found, home, last)


def _judge(script: Script, node: ast.stmt | ast.expr, home: str, last: str) -> Iterator[Hit]:
    release, modules = known_names()
    full = f"{home}.{last}"
    listed = modules.get(home)
    absent = listed is not None and not last.startswith("_") and last != "*" and last not in listed
    if (not absent and full not in _ELSEWHERE) or (listed is not None and last in listed):
        return
    if last.endswith("_available") or _careful(script, node) or _set_here(script, home, last):
        return
    if full in _ELSEWHERE:
        yield Hit(node, f"There is no `{full}` (PyTorch {release}): it is `{_ELSEWHERE[full]}`")
        return
    near = difflib.get_close_matches(last, sorted(listed or ()), 1, 0.8)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    sureness = Confidence.HIGH if last in _INVENTED else Confidence.MEDIUM
    yield Hit(node, f"There is no `{last}` in `{home}` (PyTorch {release}){hint}", sureness)


def _careful(script: Script, node: ast.AST) -> bool:
    """Whether the script expects that the name may be absent."""
    for above in script.ancestors(node):
        if isinstance(above, ast.Try) and above.handlers:
            return True
        if isinstance(above, ast.If | ast.IfExp):
            text = ast.unparse(above.test).casefold()
            if any(
                w in text for w in ("version", "hasattr", "type_checking", "available", "torch")
            ):
                return True
        if isinstance(above, ast.Call) and last_name(above.func) in ("hasattr", "getattr"):
            return True
    return False


def _set_here(script: Script, home: str, last: str) -> bool:
    """Whether the script itself puts the name there."""
    return (
        any(
            isinstance(n, ast.Attribute) and n.attr == last and isinstance(n.ctx, ast.Store)
            for n in script.attributes
        )
        or f'hasattr({home.rpartition(".")[2]}, "{last}"' in script.text
    )


flags = {
    "the invented accumulation": """
from torch.distributed.algorithms import gradient_accumulation_with_all_reduce
model = gradient_accumulation_with_all_reduce(model, 4)
""",
    "a wrong spelling": """
import torch.distributed as dist
dist.all_reduces(x)
""",
    "a wrong home": """
import torch
timer = torch.benchmark.Timer("x")
""",
}
passes = {
    "real ones": """
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.algorithms.join import Join
dist.all_reduce(x)
dist.distributed_c10d._get_default_group()
torch.utils.benchmark.Timer("x")
""",
    "careful": """
try:
    from torch.distributed import all_gather_quickly
except ImportError:
    all_gather_quickly = None
import torch.distributed as dist
if hasattr(dist, "newest"):
    dist.newest()
""",
}
