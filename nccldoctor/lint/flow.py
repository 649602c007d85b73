"""Lists the calls of a scope as they follow each other, with those of the functions it calls in their place."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from nccldoctor.lint.script import Call, Scope, Script, argument, constant, within


@dataclass(frozen=True, slots=True)
class Stop:
    """A call on the way. `node` is where the scope makes it: the call itself, or that of the function holding it."""

    call: Call
    node: ast.Call
    script: Script


def flow(script: Script, scope: Scope, depth: int = 1) -> Iterator[Stop]:
    """The calls of a scope in the order of the source, functions of the same file followed `depth` levels."""
    for node in within(scope):
        if not isinstance(node, ast.Call):
            continue
        yield Stop(Call(node, script.dotted(node.func)), node, script)
        target = script.callee(node) if depth else None
        if target is not None and target[0] is script and target[1] is not scope:
            for stop in flow(script, target[1], depth - 1):
                yield Stop(stop.call, node, script)


def scopes(script: Script) -> list[Scope]:
    """The module and all functions."""
    return [script.tree, *script.functions]


def backend_of(script: Script, init: ast.Call) -> str | None:
    """The backend that `init_process_group` or `new_group` is given; "" when none is, None when nobody can tell."""
    position = 0 if script.dotted(init.func).endswith("init_process_group") else 2
    given = argument(init, position, "backend")
    if given is None:
        starred = any(isinstance(a, ast.Starred) for a in init.args)
        return None if starred or any(k.arg is None for k in init.keywords) else ""
    value = constant(script.settled(given))
    if isinstance(value, str):
        return value
    dotted = script.dotted(given)
    if dotted.startswith("torch.distributed.Backend."):
        return dotted.rpartition(".")[2].casefold()
    return "" if isinstance(given, ast.Constant) else None


def may_be_nccl(backend: str | None) -> bool:
    """Whether a group with this backend may run on NCCL; one that cannot be told is taken not to."""
    return backend is not None and (backend == "" or "nccl" in backend or "rccl" in backend)


INIT = "torch.distributed.init_process_group"
