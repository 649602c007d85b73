"""A script starts a process group and never ends it.

Without `destroy_process_group()` the process may exit while a communicator is still in use: newer PyTorch warns, and
a rank that leaves early can take the others' last collective with it. Libraries, and frameworks that own the group,
are left alone.
"""

import ast
from collections.abc import Iterator

from nccldoctor.lint.flow import INIT, backend_of, flow, may_be_nccl
from nccldoctor.lint.rule import Edit, Hit
from nccldoctor.lint.script import Function, Script
from nccldoctor.model.finding import Confidence, Severity

code = "CODE15"
name = "never-destroyed"
severity = Severity.NOTE
confidence = Confidence.MEDIUM
remedy = ("dist.destroy_process_group()  # last line of main, on every rank",)

_FRAMEWORKS = (
    "deepspeed",
    "accelerate",
    "lightning",
    "pytorch_lightning",
    "ray",
    "transformers",
    "ignite",
)


def check(script: Script) -> Iterator[Hit]:
    if "destroy_process_group" in script.text or script.names.imported(*_FRAMEWORKS):
        return
    init = next((c for c in script.calls_to(INIT) if may_be_nccl(backend_of(script, c))), None)
    if init is None or not _is_script(script, init):
        return
    yield Hit(init, "The process group is started and never destroyed", edits=_edits(script, init))


def _is_script(script: Script, init: ast.Call) -> bool:
    """Whether running the file reaches the call: it stands at the top, or below `if __name__ == "__main__"`."""
    return any(stop.call.node is init for stop in flow(script, script.tree, 2))


def _edits(script: Script, init: ast.Call) -> tuple[Edit, ...]:
    """A last line for the function that `if __name__ == "__main__"` calls, where that is plain to see."""
    if not isinstance(init.func, ast.Attribute):
        return ()
    target = _main(script)
    if target is None:
        return ()
    ways = [stop.node for stop in flow(script, target) if stop.call.node is init]
    if not ways or any(isinstance(a, ast.If) for n in (*ways, init) for a in script.ancestors(n)):
        return ()
    last = target.body[-1]
    if isinstance(last, ast.Return | ast.Raise) or last.end_lineno is None:
        return ()
    if last.end_col_offset is None or any(isinstance(n, ast.Return) for n in ast.walk(target)):
        return ()
    text = f"\n{' ' * last.col_offset}{ast.unparse(init.func.value)}.destroy_process_group()"
    place = (last.end_lineno, last.end_col_offset)
    return (Edit(*place, *place, text),)


def _main(script: Script) -> Function | None:
    for node in script.tree.body:
        if (
            isinstance(node, ast.If)
            and "__name__" in ast.unparse(node.test)
            and len(node.body) == 1
        ):
            only = node.body[0]
            if isinstance(only, ast.Expr) and isinstance(only.value, ast.Call):
                found = script.callee(only.value)
                return found[1] if found is not None and found[0] is script else None
    return None


flags = {
    "a script": """
import torch.distributed as dist
def main():
    dist.init_process_group("nccl")
    train()
if __name__ == "__main__":
    main()
""",
}
passes = {
    "destroyed": """
import torch.distributed as dist
dist.init_process_group("nccl")
train()
dist.destroy_process_group()
""",
    "a library": """
import torch.distributed as dist
def setup():
    dist.init_process_group("nccl")
""",
}
