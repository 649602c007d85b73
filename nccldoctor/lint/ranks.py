"""Evaluates a test for one rank after the other, to see which ranks go which way.

The job imagined has eight ranks on two hosts. What a test says of a rank decides, not its wording: `rank == 0`,
`not rank`, `is_main_process()` and `int(os.environ["RANK"]) < 1` all are "rank 0 only"; `world_size > 1`,
`local_rank != -1` and `dist.is_initialized()` hold on all ranks and guard nothing.
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nccldoctor.lint.imagined import ENVIRONMENT, PER_HOST, RANKS, UNKNOWN, WORLD, by_name
from nccldoctor.lint.names import last_name
from nccldoctor.lint.script import Scope, Script


class Inside(int):
    """A rank inside a function, where the values of some parameters are known from the call."""

    function: Scope
    bound: Mapping[str, object]

    @classmethod
    def of(cls, rank: int, function: Scope, bound: Mapping[str, object]) -> "Inside":
        self = cls(rank)
        self.function, self.bound = function, bound
        return self


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate(script: Script, node: ast.expr, rank: int, depth: int = 4) -> object:
    """The value of an expression on a rank, or UNKNOWN."""
    if depth < 0:
        return UNKNOWN
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name | ast.Attribute):
        return _name(script, node, rank, depth)
    if isinstance(node, ast.BoolOp):
        return _bool(script, node, rank, depth)
    if isinstance(node, ast.UnaryOp):
        value = evaluate(script, node.operand, rank, depth)
        if isinstance(node.op, ast.Not):
            return value if value is UNKNOWN else not value
        return -value if isinstance(node.op, ast.USub) and isinstance(value, int) else UNKNOWN
    if isinstance(node, ast.Compare):
        return _compare(script, node, rank, depth)
    if isinstance(node, ast.BinOp):
        left = evaluate(script, node.left, rank, depth)
        right = evaluate(script, node.right, rank, depth)
        apply = _ARITHMETIC.get(type(node.op))
        if apply and isinstance(left, int) and isinstance(right, int) and not _by_zero(node, right):
            return apply(left, right)
        return UNKNOWN
    if isinstance(node, ast.IfExp):
        test = evaluate(script, node.test, rank, depth)
        if test is UNKNOWN:
            return UNKNOWN
        return evaluate(script, node.body if test else node.orelse, rank, depth)
    if isinstance(node, ast.NamedExpr):
        return evaluate(script, node.value, rank, depth)
    if isinstance(node, ast.Call):
        return _call(script, node, rank, depth)
    if isinstance(node, ast.Subscript):
        return _environment(script, node.value, node.slice, rank)
    return UNKNOWN


def rank_kind(script: Script, node: ast.expr) -> str:
    """ "global", "local" or "node" for an expression that is that rank on every rank, else ""."""
    values = [evaluate(script, node, rank) for rank in RANKS]
    numbers = [int(v) if isinstance(v, str) and v.isdigit() else v for v in values]
    kinds = (
        ("global", list(RANKS)),
        ("local", [r % PER_HOST for r in RANKS]),
        ("node", [r // PER_HOST for r in RANKS]),
    )
    return next((kind for kind, wanted in kinds if numbers == wanted), "")


def verdicts(
    script: Script, test: ast.expr, ranks: Sequence[int]
) -> tuple[list[bool | None], bool]:
    """For each rank whether the test holds (None: nobody can tell, but the same on all), and whether that is sure."""
    values = [evaluate(script, test, rank) for rank in ranks]
    known = {bool(v) for v in values if v is not UNKNOWN}
    if len(known) == 2:
        return [None if v is UNKNOWN else bool(v) for v in values], True
    if len(known) == 1 and UNKNOWN in values:
        usual = known.pop()
        return [not usual if v is UNKNOWN else usual for v in values], True
    if known:
        return [known.pop()] * len(values), True
    if _compares_rank(script, test):
        others = any(isinstance(n, ast.NotEq) for n in ast.walk(test))
        return [(rank == 0) is not others for rank in ranks], False
    return [None] * len(values), True


def mentioned(script: Script, test: ast.expr) -> list[int]:
    """Numbers below the world size that a test compares something with: further ranks to try."""
    numbers = [n.value for n in ast.walk(test) if isinstance(n, ast.Constant)]
    return [n for n in numbers if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < WORLD]


def splits(script: Script, test: ast.expr) -> bool:
    """Whether a test sends ranks different ways."""
    decided, _ = verdicts(script, test, RANKS)
    if len(set(decided)) > 1:
        return True
    more = mentioned(script, test)
    return bool(more) and len(set(verdicts(script, test, [*RANKS, *more])[0])) > 1


def _compares_rank(script: Script, test: ast.expr) -> bool:
    """Whether a test that cannot be evaluated compares a rank with a single thing, as `rank % gpus == 0` does."""
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            sides = [node.left, *node.comparators]
            if any(last_name(side).isupper() for side in sides):
                return False  # a constant from elsewhere: -1, as likely as 0
            if any(_has_rank(script, side) for side in sides):
                return not any(evaluate(script, side, 0) is None for side in sides)
    return False


def _has_rank(script: Script, side: ast.expr) -> bool:
    return any(
        isinstance(n, ast.expr) and rank_kind(script, n) == "global"
        for n in ast.walk(side)
        if isinstance(n, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    )


def _by_zero(node: ast.BinOp, right: int) -> bool:
    return isinstance(node.op, ast.FloorDiv | ast.Mod) and right == 0


def _bool(script: Script, node: ast.BoolOp, rank: int, depth: int) -> object:
    values = [evaluate(script, value, rank, depth) for value in node.values]
    decisive = isinstance(node.op, ast.Or)
    for value in values:
        if value is not UNKNOWN and bool(value) is decisive:
            return decisive
    return UNKNOWN if UNKNOWN in values else not decisive


def _compare(script: Script, node: ast.Compare, rank: int, depth: int) -> object:
    left = evaluate(script, node.left, rank, depth)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        if isinstance(op, ast.In | ast.NotIn):
            return _member(script, node.left, left, op, right_node, rank, depth)
        right = evaluate(script, right_node, rank, depth)
        if UNKNOWN in (left, right):
            return UNKNOWN
        try:
            if not _COMPARE[type(op)](left, right):
                return False
        except TypeError:
            return UNKNOWN
        left = right
    return True


def _member(
    script: Script,
    what: ast.expr,
    left: object,
    op: ast.cmpop,
    box: ast.expr,
    rank: int,
    depth: int,
) -> object:
    if isinstance(what, ast.Constant) and script.dotted(box) == "os.environ":
        return isinstance(op, ast.In) if what.value in ENVIRONMENT else UNKNOWN
    if left is UNKNOWN or not isinstance(box, ast.List | ast.Tuple | ast.Set):
        return UNKNOWN
    values = [evaluate(script, e, rank, depth) for e in box.elts]
    if left in values:
        return isinstance(op, ast.In)
    return UNKNOWN if UNKNOWN in values else isinstance(op, ast.NotIn)


def _name(script: Script, node: ast.Name | ast.Attribute, rank: int, depth: int) -> object:
    if isinstance(node, ast.Name):
        if (
            isinstance(rank, Inside)
            and node.id in rank.bound
            and script.scope(node) is rank.function
        ):
            return rank.bound[node.id]
        value = script.value(node)
        if value is not None:
            known = evaluate(script, value, rank, depth - 1)
            if known is not UNKNOWN:
                return known
        if _counts_over(script, node):
            return UNKNOWN
    return by_name(last_name(node), rank)


def _counts_over(script: Script, name: ast.Name) -> bool:
    """Whether the name is the variable of a loop around it: `for rank in range(n)` goes over all ranks."""
    for above in script.ancestors(name):
        targets: list[ast.expr] = []
        if isinstance(above, ast.For | ast.AsyncFor):
            targets = [above.target]
        elif isinstance(above, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            targets = [generator.target for generator in above.generators]
        elif isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        for target in targets:
            if any(isinstance(n, ast.Name) and n.id == name.id for n in ast.walk(target)):
                return True
    return False


def _call(script: Script, node: ast.Call, rank: int, depth: int) -> object:
    dotted = script.dotted(node.func)
    name = last_name(node.func)
    if dotted in ("os.getenv", "os.environ.get") and node.args:
        return _environment(script, None, node.args[0], rank)
    if name in ("int", "bool", "str") and len(node.args) == 1 and not dotted:
        value = evaluate(script, node.args[0], rank, depth)
        if name == "int" and isinstance(value, str):
            return int(value) if value.lstrip("-").isdigit() else UNKNOWN
        return UNKNOWN if value is UNKNOWN else {"bool": bool, "str": str}.get(name, _same)(value)
    if dotted in ("torch.distributed.is_initialized", "torch.distributed.is_available"):
        return True
    if dotted == "torch.cuda.device_count":
        return PER_HOST
    if isinstance(node.func, ast.Attribute) and not dotted and _of_a_group(node.func.value):
        return UNKNOWN
    if name.startswith("get_"):
        return by_name(name[4:], rank)
    if name in ("rank", "local_rank", "world_size", "global_rank") or name.startswith(
        ("is_", "_is_")
    ):
        return by_name(name, rank)
    return UNKNOWN


def _same(value: object) -> object:
    return value


def _of_a_group(owner: ast.expr) -> bool:
    name = last_name(owner).casefold()
    return any(word in name for word in ("group", "mesh", "mpu", "topo", "grid"))


def _environment(script: Script, owner: ast.expr | None, key: ast.expr, rank: int) -> object:
    if owner is not None and script.dotted(owner) != "os.environ":
        return UNKNOWN
    if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value in ENVIRONMENT:
        return str(ENVIRONMENT[key.value](rank))
    return UNKNOWN
