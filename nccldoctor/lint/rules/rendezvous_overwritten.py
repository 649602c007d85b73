"""The script overwrites what the launcher has set: MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE.

`os.environ["MASTER_ADDR"] = "localhost"` works on one host and makes every host of a larger job wait for itself; a
fixed port makes two jobs on one host collide (`EADDRINUSE`). `setdefault` keeps the script runnable by hand and
leaves the launcher's values alone. CUDA_VISIBLE_DEVICES is read once, when CUDA starts: set after that, it does
nothing. A script that spawns its own processes on one host may set what it likes.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.rule import Edit, Hit
from nccldoctor.lint.script import Scope, Script, constant
from nccldoctor.model.finding import Confidence, Severity

code = "CODE13"
name = "rendezvous-overwritten"
severity = Severity.WARNING
confidence = Confidence.MEDIUM
remedy = (
    'os.environ.setdefault("MASTER_ADDR", "localhost")  # the launcher wins',
    "torchrun --standalone --nproc-per-node 8 train.py  # sets all of them",
)

_RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
_SPAWNING = (
    "mp.spawn",
    "multiprocessing",
    "Process(",
    "start_processes",
    "@ray.remote",
    "unittest",
    "pytest",
)


def check(script: Script) -> Iterator[Hit]:
    by_scope: dict[Scope, list[ast.Assign]] = {}
    for assign in script.assigns:
        if isinstance(assign, ast.Assign) and (key := variable(script, assign)):
            if key == "CUDA_VISIBLE_DEVICES":
                yield from _too_late(script, assign)
            elif (
                key in _RENDEZVOUS
                and isinstance(assign.value, ast.Constant)
                and not _asked_before(script, assign)
            ):
                by_scope.setdefault(script.scope(assign), []).append(assign)
    for assigns in by_scope.values():
        values = {variable(script, a): str(constant(a.value)) for a in assigns}
        if values.get("WORLD_SIZE") == "1":
            continue
        names = ", ".join(values)
        spawns = any(word in script.text for word in _SPAWNING)
        title = f"{names} {'is' if len(values) == 1 else 'are'} overwritten, whatever the launcher has set"
        yield Hit(
            assigns[0],
            title,
            Confidence.LOW if spawns or values.get("RANK") == "0" else None,
            also=tuple(assigns[1:]),
            edits=tuple(e for a in assigns for e in _edits(script, a)),
        )


def variable(script: Script, assign: ast.Assign) -> str:
    """The environment variable that a statement assigns, or ""."""
    target = assign.targets[0]
    if isinstance(target, ast.Subscript) and script.dotted(target.value) == "os.environ":
        key = constant(target.slice)
        return key if isinstance(key, str) else ""
    return ""


def _asked_before(script: Script, assign: ast.Assign) -> bool:
    """Whether a branch around the statement asks for something first: a variable, an argument, an exception."""
    for above in script.ancestors(assign):
        if isinstance(above, ast.ExceptHandler):
            return True
        if isinstance(above, ast.If) and "__name__" not in ast.unparse(above.test):
            return True
    return False


def _edits(script: Script, assign: ast.Assign) -> tuple[Edit, ...]:
    target = assign.targets[0]
    if len(assign.targets) != 1 or not isinstance(target, ast.Subscript):
        return ()
    if assign.end_lineno is None or assign.end_col_offset is None:
        return ()
    key, value = ast.unparse(target.slice), ast.unparse(assign.value)
    text = f"{ast.unparse(target.value)}.setdefault({key}, {value})".replace("'", '"')
    return (Edit(assign.lineno, assign.col_offset, assign.end_lineno, assign.end_col_offset, text),)


_STARTS_CUDA = frozenset(
    f"torch.cuda.{n}" for n in ("init", "set_device", "synchronize", "current_device")
)


def _too_late(script: Script, assign: ast.Assign) -> Iterator[Hit]:
    scope = script.scope(assign)
    for call in script.calls:
        before = call.node.lineno < assign.lineno and script.scope(call.node) is scope
        if call.dotted in _STARTS_CUDA and before:
            starter = script.show(call.node.func)
            title = f"CUDA_VISIBLE_DEVICES is set after `{starter}` has started CUDA: too late"
            yield Hit(assign, title, also=(call.node,), remedy=_VISIBLE)
            return


_VISIBLE = ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc-per-node 2 train.py",)


flags = {
    "the seed's": """
import os
import torch.distributed as dist
def setup(rank, world_size):
    os.environ['MASTER_ADDR'] = 'localhost'
    os.environ['MASTER_PORT'] = '29500'
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
""",
    "too late": """
import os
import torch
torch.cuda.set_device(0)
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
""",
}
passes = {
    "setdefault": """
import os
os.environ.setdefault("MASTER_ADDR", "localhost")
if "MASTER_PORT" not in os.environ:
    os.environ["MASTER_PORT"] = "29500"
""",
    "one process": """
import os
os.environ["MASTER_ADDR"] = "localhost"
os.environ["RANK"] = "0"
os.environ["WORLD_SIZE"] = "1"
""",
    "from the scheduler": """
import os
os.environ["MASTER_ADDR"] = first_host(os.environ["SLURM_NODELIST"])
""",
}
