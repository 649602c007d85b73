"""Compares what the ranks do in each function, and names the collectives that not all of them make."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nccldoctor.lint.collectives import collective, collectives
from nccldoctor.lint.imagined import RANKS
from nccldoctor.lint.names import last_name
from nccldoctor.lint.ranks import mentioned, splits, verdicts
from nccldoctor.lint.script import Call, Function, Scope, Script, within
from nccldoctor.lint.trace import RANK_ZERO_DECORATORS, Step, Walk, decorated_for_one
from nccldoctor.model.finding import Confidence

Guard: TypeAlias = ast.If | ast.While | ast.IfExp


@dataclass(frozen=True, slots=True)
class Uneven:
    """A collective that some ranks make and others do not.

    `test` is what parts them, at `because`; `left` is true where the others have left the block before.
    """

    step: Step
    test: str
    because: tuple[ast.stmt | ast.expr, ...]
    left: bool
    confidence: Confidence
    decorator: str = ""


def uneven(script: Script) -> list[Uneven]:
    """All such collectives of a script; computed once, because two rules ask for it."""
    if script.uneven is None:
        script.uneven = list(_search(script))
    return [case for case in script.uneven if isinstance(case, Uneven)]


def _search(script: Script) -> Iterator[Uneven]:
    for function in script.functions:
        if decorated_for_one(function):
            yield from _decorated(script, function)
    tests = [node for node in script.ifs if splits(script, node.test)]
    tests_of: dict[Scope, list[ast.If]] = {}
    for test in tests:
        tests_of.setdefault(script.scope(test), []).append(test)
    inline = {
        script.scope(c.node) for c in collectives(script) if _in_expression_guard(script, c.node)
    }
    for scope in [script.tree, *script.functions]:
        if (scope in tests_of or scope in inline) and not decorated_for_one(scope):
            yield from _compare(script, scope, tests_of.get(scope, []))


def _in_expression_guard(script: Script, node: ast.AST) -> bool:
    for above in script.ancestors(node):
        if isinstance(above, ast.stmt):
            return False
        if isinstance(above, ast.BoolOp | ast.IfExp):
            return True
    return False


def _decorated(script: Script, function: Function) -> Iterator[Uneven]:
    names = [last_name(d) for d in function.decorator_list]
    decorator = next(n for n in names if n in RANK_ZERO_DECORATORS)
    for node in within(function):
        if isinstance(node, ast.Call):
            found = collective(script, Call(node, script.dotted(node.func)))
            if found is not None and found.group is None:
                step = Step(found, node)
                yield Uneven(step, "", (function,), False, Confidence.HIGH, decorator)


def _compare(script: Script, scope: Scope, tests: list[ast.If]) -> Iterator[Uneven]:
    more = {n for node in tests for n in mentioned(script, node.test)}
    ranks = sorted({*RANKS, *more})
    walks = {rank: Walk(script, ranks, rank) for rank in ranks}
    ways = {rank: walk.steps(scope) for rank, walk in walks.items()}
    counts = {rank: Counter(_key(step) for step in way) for rank, way in ways.items()}
    for name in sorted({name for count in counts.values() for name in count}):
        if len({count[name] for count in counts.values()}) > 1:
            unsure = {node for walk in walks.values() for node in walk.unsure}
            yield from _partial(script, tests, ways, name, unsure)


def _key(step: Step) -> str:
    return step.collective.name


def _partial(
    script: Script,
    tests: list[ast.If],
    ways: Mapping[int, list[Step]],
    name: str,
    unsure: set[ast.If],
) -> Iterator[Uneven]:
    """The steps of one name that not all ranks take: the first one for each test that parts the ranks."""
    nodes = {rank: {step.node for step in way if _key(step) == name} for rank, way in ways.items()}
    parted: dict[Guard | None, tuple[Step, bool]] = {}
    shares: dict[Guard | None, Counter[int]] = {}
    for rank, step in sorted(
        ((r, s) for r, way in ways.items() for s in way if _key(s) == name),
        key=lambda pair: _place(pair[1]),
    ):
        if all(step.node in made for made in nodes.values()):
            continue
        guard, left = _guard(script, tests, step.node)
        parted.setdefault(guard, (step, left))
        shares.setdefault(guard, Counter())[rank] += 1
    guilty = _guilty(shares, list(ways))
    for guard, (step, left) in parted.items():
        if guard not in guilty:
            continue
        sureness = Confidence.HIGH
        if (
            guard in unsure
            or (guard is None and unsure)
            or _answered(script, tests, guard, left, step.node)
        ):
            sureness = Confidence.MEDIUM
        if isinstance(guard, ast.If) and not left and _kept_for_later(script, guard, step):
            sureness = Confidence.LOW
        if _meant(script, step.node):
            sureness = Confidence.LOW
        test = script.show(guard.test) if guard is not None else "the test beside it"
        yield Uneven(step, test, () if guard is None else (guard,), left, sureness)


def _guilty(shares: Mapping[Guard | None, Counter[int]], ranks: list[int]) -> set[Guard | None]:
    """The tests without whose steps the ranks would be even; all of them where no single one is at fault."""
    whole = Counter({rank: sum(share[rank] for share in shares.values()) for rank in ranks})
    alone = {
        guard
        for guard, share in shares.items()
        if len({whole[rank] - share[rank] for rank in ranks}) == 1
    }
    return alone or set(shares)


def _meant(script: Script, node: ast.AST) -> bool:
    """Whether a test expects that the collective fails: `with assertRaises…`."""
    return any(
        isinstance(a, ast.With) and any("raises" in ast.unparse(i).casefold() for i in a.items)
        for a in script.ancestors(node)
    )


def _kept_for_later(script: Script, guard: ast.If, step: Step) -> bool:
    """Whether the other branch makes the same collective in a function that it defines and hands on."""
    inside = any(script.inside(step.node, s) for s in guard.body)
    for statement in guard.orelse if inside else guard.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Call):
                found = collective(script, Call(node, script.dotted(node.func)))
                if found is not None and found.name == step.collective.name:
                    return True
    return False


def _place(step: Step) -> tuple[int, int]:
    return step.node.lineno, step.node.col_offset


def _guard(script: Script, tests: list[ast.If], node: ast.AST) -> tuple[Guard | None, bool]:
    """The test that parts the ranks at a node, and whether the others left there before."""
    above = list(script.ancestors(node))
    for guard in above:
        if isinstance(guard, ast.If) and guard in tests:
            return guard, False
        if isinstance(guard, ast.While | ast.IfExp) and splits(script, guard.test):
            return guard, False
    before = [t for t in tests if t.lineno < getattr(node, "lineno", 0) and _can_leave(t)]
    return (before[-1], True) if before else (None, False)


def _can_leave(test: ast.If) -> bool:
    return any(
        isinstance(n, ast.Return | ast.Continue | ast.Break)
        or (isinstance(n, ast.Call) and last_name(n.func) in ("exit", "_exit", "quit"))
        for n in within(test)
    )


def _answered(
    script: Script, tests: list[ast.If], guard: Guard | None, left: bool, node: ast.AST
) -> bool:
    """Whether the other ranks do something of their own, in which the missing call may be hidden."""
    if not isinstance(guard, ast.If):
        return False
    if left:
        body = guard.body if verdicts(script, guard.test, [1])[0][0] else guard.orelse
        return any(_unknown_call(script, statement) for statement in body)
    arms = [guard.orelse, guard.body]
    for arm, other_arm in (arms, arms[::-1]):
        if any(script.inside(node, s) for s in other_arm) and any(
            _unknown_call(script, s) for s in arm
        ):
            return True
    mine = verdicts(script, guard.test, RANKS)[0]
    for other in tests:
        if (
            other is guard
            or other in guard.orelse
            or script.parent(other) is not script.parent(guard)
        ):
            continue
        theirs = verdicts(script, other.test, RANKS)[0]
        opposite = any(a is False and b for a, b in zip(mine, theirs, strict=True))
        if opposite and any(_unknown_call(script, s) for s in other.body):
            return True
    return False


_PLAIN = {
    "print",
    "info",
    "debug",
    "warning",
    "warn",
    "error",
    "sleep",
    "append",
    "len",
    "range",
    "format",
    "exit",
}


def _unknown_call(script: Script, statement: ast.stmt) -> bool:
    """Whether a statement calls something that could make collectives unseen."""
    for node in within(statement):
        if isinstance(node, ast.Call) and last_name(node.func) not in _PLAIN:
            dotted = script.dotted(node.func)
            if not dotted.startswith(("torch.", "os.", "time.", "json.", "shutil.", "sys.")):
                return True
    return False
