"""A script as the rules see it: its tree, who stands where, what is assigned to what, and which calls it makes."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from nccldoctor.lint.names import Names, last_name

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Scope: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
Finder: TypeAlias = Callable[["Script", str], "tuple[Script, Function] | None"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MODULES = ("torch.distributed", "torch.distributed.distributed_c10d", "torch.cuda", "torch.nn")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True, slots=True)
class Call:
    """A call, and the dotted name that it resolves to ("" where its root is no import)."""

    node: ast.Call
    dotted: str


class Script:
    """One parsed script. `path` is what reports show; `find` looks up a function of another file of the project."""

    def __init__(self, path: str, text: str, find: Finder | None = None) -> None:
        """Parse `text`; raises SyntaxError (or ValueError for NUL bytes) as `ast.parse` does."""
        self.path = path
        self.text = text
        self.lines = text.splitlines()
        self.tree = ast.parse(text)
        self.functions: list[Function] = []
        self.classes: list[ast.ClassDef] = []
        self.ifs: list[ast.If] = []
        self.attributes: list[ast.Attribute] = []
        self._parents: dict[ast.AST, ast.AST] = {}
        self._values: dict[tuple[ast.AST, str], list[ast.expr | None]] = {}
        self._find = find
        self.uneven: list[object] | None = None
        calls: list[ast.Call] = []
        imports: list[ast.Import | ast.ImportFrom] = []
        self.assigns: list[ast.Assign | ast.AnnAssign] = []
        for node in self._descend():
            if isinstance(node, ast.Call):
                calls.append(node)
            elif isinstance(node, ast.Attribute):
                self.attributes.append(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                imports.append(node)
            elif isinstance(node, _FUNCTIONS):
                self.functions.append(node)
            elif isinstance(node, ast.ClassDef):
                self.classes.append(node)
            elif isinstance(node, ast.If):
                self.ifs.append(node)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                self.assigns.append(node)
        self.imports = imports
        self.names = Names(imports)
        self._alias_modules()
        self._note_values()
        self.calls = [Call(node, self.names.resolve(node.func)) for node in calls]

    def _descend(self) -> Iterator[ast.AST]:
        """Every node, in the order of the source."""
        stack: list[ast.AST] = [self.tree]
        parents = self._parents
        while stack:
            node = stack.pop()
            children = list(ast.iter_child_nodes(node))
            for child in children:
                parents[child] = node
            children.reverse()
            stack += children
            yield node

    def _alias_modules(self) -> None:
        for assign in self.assigns:
            if isinstance(assign, ast.Assign) and isinstance(assign.value, ast.Attribute):
                dotted = self.names.resolve(assign.value)
                if dotted in _MODULES:
                    for target in assign.targets:
                        if isinstance(target, ast.Name):
                            self.names.alias(target.id, dotted)

    def _note_values(self) -> None:
        for node in self._parents:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                scope = self.scope(node)
                parent = self._parents[node]
                value = _plain_value(parent, node)
                self._values.setdefault((scope, node.id), []).append(value)
            elif isinstance(node, ast.arg):
                self._values.setdefault((self.scope(node), node.arg), []).append(None)

    @property
    def is_test(self) -> bool:
        """Whether the file is a test, which may well do what a training script should not."""
        folder, _, name = self.path.replace("\\", "/").rpartition("/")
        named = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
        named = named or "testing" in folder.split("/")
        return named or self.names.imported("unittest", "pytest", "torch.testing._internal")

    # ------------------------------------------------------------------ who stands where

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, from the inside out."""
        parent = self._parents.get(node)
        while parent is not None:
            yield parent
            parent = self._parents.get(parent)

    def scope(self, node: ast.AST) -> Scope:
        """The function that a node stands in, or the module."""
        for above in self.ancestors(node):
            if isinstance(above, _FUNCTIONS):
                return above
        return self.tree

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that a node belongs to."""
        at: ast.AST | None = node
        while at is not None and not isinstance(at, ast.stmt):
            at = self._parents.get(at)
        if at is None:
            raise ValueError("the module itself is no statement")
        return at

    def loops(self, node: ast.AST) -> Iterator[ast.For | ast.AsyncFor | ast.While]:
        """The loops around a node within its function, from the inside out."""
        for above in self.ancestors(node):
            if isinstance(above, _FUNCTIONS):
                return
            if isinstance(above, _LOOPS):
                yield above

    def inside(self, node: ast.AST, block: ast.AST) -> bool:
        return node is block or any(above is block for above in self.ancestors(node))

    # ------------------------------------------------------------------ what is what

    def calls_to(self, *dotted: str) -> Iterator[ast.Call]:
        """Calls that resolve to one of these names, in the order of the source."""
        return (call.node for call in self.calls if call.dotted in dotted)

    def dotted(self, expression: ast.expr) -> str:
        return self.names.resolve(expression)

    def value(self, name: ast.Name) -> ast.expr | None:
        """What the name was assigned, if it is assigned exactly once in its function, or else in the module."""
        scope: Scope = self.scope(name)
        values = self._values.get((scope, name.id))
        if values is None and scope is not self.tree:
            values = self._values.get((self.tree, name.id))
        return values[0] if values is not None and len(values) == 1 else None

    def values(self, scope: Scope, name: str) -> list[ast.expr | None]:
        """Everything assigned to a name in a scope; None stands for a parameter, a loop or an unpacking."""
        return self._values.get((scope, name), [])

    def bound(self, name: str) -> bool:
        """Whether anything in the script gives this name a meaning."""
        if self.names.knows(name) or any(key[1] == name for key in self._values):
            return True
        return any(d.name == name for d in [*self.functions, *self.classes])

    def settled(self, expression: ast.expr, depth: int = 3) -> ast.expr:
        """The expression behind a name that is assigned once, or the expression itself."""
        while depth and isinstance(expression, ast.Name):
            value = self.value(expression)
            if value is None:
                break
            expression, depth = value, depth - 1
        return expression

    def callee(self, call: ast.Call) -> "tuple[Script, Function] | None":
        """The function of this project that a call runs, as far as one file and its imports tell."""
        func = call.func
        if isinstance(func, ast.Name) and not self.names.knows(func.id):
            return self._own(func.id)
        if isinstance(func, ast.Attribute) and last_name(func.value) in ("self", "cls"):
            return self._method(call, func.attr)
        dotted = self.names.resolve(func)
        if dotted and self._find and not dotted.startswith(("torch.", "os.", "numpy.")):
            return self._find(self, dotted)
        return None

    def _own(self, name: str) -> "tuple[Script, Function] | None":
        for function in self.functions:
            if function.name == name and not isinstance(self._parents[function], ast.ClassDef):
                return self, function
        return None

    def _method(self, call: ast.Call, name: str) -> "tuple[Script, Function] | None":
        for above in self.ancestors(call):
            if isinstance(above, ast.ClassDef):
                for member in above.body:
                    if isinstance(member, _FUNCTIONS) and member.name == name:
                        return self, member
                return None
        return None

    def show(self, node: ast.expr) -> str:
        """The source of an expression on one line, cut at 60 characters."""
        text = " ".join(ast.unparse(node).split())
        return text if len(text) <= 60 else f"{text[:57]}..."


def _plain_value(parent: ast.AST, name: ast.Name) -> ast.expr | None:
    """What a statement assigns to the name itself; None for unpacking, loops, `with` and `+=`."""
    if isinstance(parent, ast.Assign):
        return parent.value if name in parent.targets else None
    if isinstance(parent, ast.AnnAssign | ast.NamedExpr):
        return parent.value if parent.target is name else None
    return None


def argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    """The argument at a position or with a keyword, or None where it is not given (or hidden behind a `*`)."""
    for given in call.keywords:
        if given.arg == keyword:
            return given.value
    before = call.args[: position + 1]
    if position < 0 or len(before) <= position or any(isinstance(a, ast.Starred) for a in before):
        return None
    return before[position]


def constant(expression: ast.expr | None) -> object:
    """The value of a literal (also of a signed number), else None."""
    if isinstance(expression, ast.Constant):
        return expression.value
    if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.USub):
        value = constant(expression.operand)
        return -value if isinstance(value, int | float) else None
    return None


def within(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it, without entering functions, classes and lambdas defined there."""
    stack = [node]
    while stack:
        at = stack.pop()
        yield at
        for child in reversed(list(ast.iter_child_nodes(at))):
            if not isinstance(child, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
                stack.append(child)
