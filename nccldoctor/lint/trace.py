"""Walks a function as one rank would, and lists the collectives that this rank makes.

Two ranks whose lists differ wait for each other for ever. Lists are compared, not places in the text, so that the
usual right ways (a barrier in both branches, a barrier for the others before and for rank 0 after) are no findings.
"""

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from nccldoctor.lint.collectives import Collective, collective
from nccldoctor.lint.imagined import UNKNOWN
from nccldoctor.lint.names import last_name
from nccldoctor.lint.ranks import Inside, evaluate, verdicts
from nccldoctor.lint.script import Call, Function, Scope, Script


class Exit(IntEnum):
    """How far the end of a block reaches."""

    FALL = 0
    LOOP = 1
    FUNCTION = 2


@dataclass(frozen=True, slots=True)
class Step:
    """One collective on the way of a rank. `node` stands in the function walked; `via` is the function it calls."""

    collective: Collective
    node: ast.Call
    via: Function | None = None


RANK_ZERO_DECORATORS = (
    "rank_zero_only",
    "main_process_only",
    "on_main_process",
    "on_local_main_process",
)
_TRIES: tuple[type[ast.Try], ...] = (ast.Try, getattr(ast, "TryStar", ast.Try))
_ENDS = ("sys.exit", "os._exit")


def decorated_for_one(function: ast.AST) -> bool:
    """Whether a decorator lets the function run on one rank only."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return any(last_name(d) in RANK_ZERO_DECORATORS for d in function.decorator_list)


class Walk:
    """One rank's way through a function; `ranks` are all those that are compared, `rank` is this one."""

    def __init__(self, script: Script, ranks: Sequence[int], rank: int, depth: int = 1) -> None:
        self._script = script
        self._ranks = ranks
        self._at = list(ranks).index(rank)
        self._depth = depth
        self.unsure: list[ast.If] = []

    def steps(self, scope: Scope) -> list[Step]:
        return self._block(scope.body)[0]

    def _block(self, body: Iterable[ast.stmt]) -> tuple[list[Step], Exit]:
        steps: list[Step] = []
        for statement in body:
            more, leaves = self._statement(statement)
            steps += more
            if leaves:
                return steps, leaves
        return steps, Exit.FALL

    def _statement(self, node: ast.stmt) -> tuple[list[Step], Exit]:
        if isinstance(node, ast.If):
            return self._if(node)
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            return self._loop(node)
        if isinstance(node, ast.With | ast.AsyncWith):
            steps = [s for item in node.items for s in self._expression(item.context_expr)]
            inner, leaves = self._block(node.body)
            return steps + inner, leaves
        if isinstance(node, _TRIES):
            return self._try(node)
        if isinstance(node, ast.Match):
            steps = self._expression(node.subject)
            return steps + [s for case in node.cases for s in self._block(case.body)[0]], Exit.FALL
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return [], Exit.FALL
        steps = [
            s
            for e in ast.iter_child_nodes(node)
            if isinstance(e, ast.expr)
            for s in self._expression(e)
        ]
        return steps, self._leaves(node)

    def _leaves(self, node: ast.stmt) -> Exit:
        if isinstance(node, ast.Return):
            return Exit.FUNCTION
        if isinstance(node, ast.Continue | ast.Break):
            return Exit.LOOP
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            func = node.value.func
            if self._script.dotted(func) in _ENDS or last_name(func) in ("exit", "quit"):
                return Exit.FUNCTION
        return Exit.FALL

    def _decide(self, test: ast.expr, node: ast.If | None) -> bool | None:
        decided, sure = verdicts(self._script, test, self._ranks)
        if not sure and node is not None:
            self.unsure.append(node)
        return decided[self._at]

    def _if(self, node: ast.If) -> tuple[list[Step], Exit]:
        steps = self._expression(node.test)
        decided = self._decide(node.test, node)
        if decided is None:
            body, leaves = self._block(node.body)
            orelse, leaves_too = self._block(node.orelse)
            return steps + body + orelse, min(leaves, leaves_too)
        inner, leaves = self._block(node.body if decided else node.orelse)
        return steps + inner, leaves

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> tuple[list[Step], Exit]:
        steps = self._expression(node.test if isinstance(node, ast.While) else node.iter)
        if isinstance(node, ast.While) and self._decide(node.test, None) is False:
            return steps, Exit.FALL
        inner, leaves = self._block(node.body)
        after, leaves_after = self._block(node.orelse)
        return steps + inner + after, Exit.FUNCTION if Exit.FUNCTION in (
            leaves,
            leaves_after,
        ) else Exit.FALL

    def _try(self, node: ast.Try) -> tuple[list[Step], Exit]:
        steps, leaves = self._block(node.body)
        if not leaves:
            more, leaves = self._block(node.orelse)
            steps += more
        for handler in node.handlers:
            steps += self._block(handler.body)[0]
        final, leaves_finally = self._block(node.finalbody)
        return steps + final, max(leaves, leaves_finally)

    def _expression(self, node: ast.expr) -> list[Step]:
        if isinstance(node, ast.IfExp):
            steps = self._expression(node.test)
            decided = self._decide(node.test, None)
            for branch, taken in ((node.body, True), (node.orelse, False)):
                if decided is None or decided is taken:
                    steps += self._expression(branch)
            return steps
        if isinstance(node, ast.BoolOp):
            return self._bool(node)
        if isinstance(node, ast.Lambda):
            return []
        steps = [
            s
            for child in ast.iter_child_nodes(node)
            for e in ([child.value] if isinstance(child, ast.keyword) else [child])
            if isinstance(e, ast.expr)
            for s in self._expression(e)
        ]
        return steps + self._call(node) if isinstance(node, ast.Call) else steps

    def _bool(self, node: ast.BoolOp) -> list[Step]:
        steps: list[Step] = []
        stops = isinstance(node.op, ast.Or)
        for value in node.values:
            steps += self._expression(value)
            known = evaluate(self._script, value, self._ranks[self._at])
            if known is not UNKNOWN and bool(known) is stops:
                break
        return steps

    def _call(self, node: ast.Call) -> list[Step]:
        found = collective(self._script, Call(node, self._script.dotted(node.func)))
        if found is not None:
            return [Step(found, node)] if found.group is None else []
        if not self._depth:
            return []
        target = self._script.callee(node)
        if target is None or decorated_for_one(target[1]):
            return []
        there, function = target
        ranks = [Inside.of(r, function, self._bound(node, function, r)) for r in self._ranks]
        inner = Walk(there, ranks, ranks[self._at], self._depth - 1).steps(function)
        return [Step(step.collective, node, function) for step in inner]

    def _bound(self, call: ast.Call, function: Function, rank: int) -> dict[str, object]:
        """What the parameters of a function are in this call on a rank, where that can be told."""
        if any(isinstance(a, ast.Starred) for a in call.args) or any(
            k.arg is None for k in call.keywords
        ):
            return {}
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        defaults = dict(zip(reversed(names), reversed(function.args.defaults), strict=False))
        if names and names[0] in ("self", "cls") and isinstance(call.func, ast.Attribute):
            names = names[1:]
        given = {**defaults, **dict(zip(names, call.args, strict=False))}
        given |= {k.arg: k.value for k in call.keywords if k.arg}
        values = {name: evaluate(self._script, value, rank) for name, value in given.items()}
        return {name: value for name, value in values.items() if value is not UNKNOWN}
