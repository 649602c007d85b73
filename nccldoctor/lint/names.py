"""Resolves the names of a script: which `dist.all_reduce` or `ar` is really `torch.distributed.all_reduce`."""

import ast
from collections.abc import Iterable

_HOMES = (
    ("torch.distributed.distributed_c10d.", "torch.distributed."),
    ("deepspeed.comm.comm.", "deepspeed.comm."),
    ("torch.distributed.device_mesh.", "torch.distributed."),
    ("torch.distributed.fsdp.fully_sharded_data_parallel.", "torch.distributed.fsdp."),
    ("torch.distributed.checkpoint.state_dict_saver.", "torch.distributed.checkpoint."),
    ("torch.distributed.checkpoint.state_dict_loader.", "torch.distributed.checkpoint."),
    ("torch.nn.parallel.distributed.", "torch.nn.parallel."),
    ("torch.nn.parallel.data_parallel.", "torch.nn.parallel."),
    ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel"),
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.utils.data.distributed.", "torch.utils.data."),
    ("torch.utils.data.dataset.", "torch.utils.data."),
    ("torch.multiprocessing.spawn.", "torch.multiprocessing."),
)


class Names:
    """The imports of one script, wherever they stand in it; `modules` are the dotted names imported."""

    __slots__ = ("_aliases", "modules")

    def __init__(self, imports: Iterable[ast.Import | ast.ImportFrom]) -> None:
        self._aliases: dict[str, str] = {}
        self.modules: set[str] = set()
        for statement in imports:
            if isinstance(statement, ast.Import):
                for name in statement.names:
                    self.modules.add(name.name)
                    root = name.name.partition(".")[0]
                    self._aliases[name.asname or root] = name.name if name.asname else root
            else:
                home = "." * statement.level + (statement.module or "")
                self.modules.add(home)
                for name in statement.names:
                    joint = "" if home.endswith(".") else "."
                    self._aliases[name.asname or name.name] = f"{home}{joint}{name.name}"
                    self.modules.add(f"{home}{joint}{name.name}")

    def alias(self, name: str, dotted: str) -> None:
        """Lets `name` stand for `dotted` too, as after `dist = torch.distributed`."""
        self._aliases.setdefault(name, dotted)

    def imported(self, *prefixes: str) -> bool:
        """Whether a module with one of these names, or below it, is imported."""
        return any(m == p or m.startswith(f"{p}.") for m in self.modules for p in prefixes)

    def knows(self, name: str) -> bool:
        return name in self._aliases

    def resolve(self, expression: ast.expr) -> str:
        """The dotted name behind a name or an attribute chain, or "" where its root is no import.

        A name that PyTorch also shows elsewhere is given in its usual home.
        """
        return _settle(self.written(expression))

    def written(self, expression: ast.expr) -> str:
        """The same, but in the home that the script names."""
        parts: list[str] = []
        while isinstance(expression, ast.Attribute):
            parts.append(expression.attr)
            expression = expression.value
        if not isinstance(expression, ast.Name) or expression.id not in self._aliases:
            return ""
        parts.append(self._aliases[expression.id])
        return ".".join(reversed(parts))


def _settle(dotted: str) -> str:
    for away, home in _HOMES:
        if dotted.startswith(away):
            return home + dotted[len(away) :]
    return dotted


def last_name(expression: ast.expr) -> str:
    """The last identifier of a name or attribute chain: `self.accelerator` → "accelerator"; "" for anything else."""
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""
