"""A collective is timed in a way that measures something else.

A call returns before the GPU has done it, so without `torch.cuda.synchronize()` before *both* readings of the clock
the time is that of the launch. The first call also pays for connections. One call has no spread. And the bus
bandwidth of an all_reduce is size / time x 2(n-1)/n: other factors overstate it. A good measurement has five calls
of warm-up, twenty or more timed ones, and takes the slowest rank.
"""

import ast
import re
from collections.abc import Iterator

from nccldoctor.lint.collectives import GROUP_POSITION
from nccldoctor.lint.rule import Hit
from nccldoctor.lint.script import Scope, Script, within
from nccldoctor.model.finding import Confidence, Severity

code = "CODE10"
name = "wrong-benchmark"
severity = Severity.WARNING
confidence = Confidence.MEDIUM
remedy = (
    "nccldoctor probe  # measures every collective of this machine properly",
    "for _ in range(5): dist.all_reduce(x)  # warm-up, then torch.cuda.synchronize(), then the clock",
    "busbw = size_bytes / seconds * 2 * (n - 1) / n",
)

_CLOCKS = ("time.time", "time.perf_counter", "time.monotonic")
_SYNCS = ("torch.cuda.synchronize", "torch.accelerator.synchronize")
_MEASURE = re.compile(
    r"band_?width|bus_?bw|alg_?bw|gbps|gb/s|mb/s|latency|benchmark", re.IGNORECASE
)


def check(script: Script) -> Iterator[Hit]:
    if not _MEASURE.search(script.text):
        return
    for scope in [script.tree, *script.functions]:
        starts = [n for n in within(scope) if _reads_clock(script, n)]
        if len(starts) >= 2 and _MEASURE.search(_source(script, scope)):
            yield from _timed(script, scope, starts)


def _source(script: Script, scope: Scope) -> str:
    if isinstance(scope, ast.Module):
        return script.text
    return "\n".join(script.lines[scope.lineno - 1 : scope.end_lineno])


def _reads_clock(script: Script, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and script.dotted(node.func) in _CLOCKS


def _timed(script: Script, scope: Scope, clocks: list[ast.AST]) -> Iterator[Hit]:
    first, last = clocks[0].lineno, clocks[-1].lineno  # type: ignore[attr-defined]
    calls = [n for n in within(scope) if isinstance(n, ast.Call)]
    made = [c for c in calls if _moves_data(script, c)]
    inside = [c for c in made if first < c.lineno < last]
    if not inside or not _over_clock_loop(script, inside[0], first):
        return
    syncs = [c.lineno for c in calls if script.dotted(c.func) in _SYNCS]
    wrong = []
    if not any(first < loop.lineno for loop in script.loops(inside[0])):
        wrong.append("one call is no measurement")
    if "cuda" in script.text:
        if not any(line < first for line in syncs):
            wrong.append("no torch.cuda.synchronize() before the first reading")
        if not any(inside[-1].lineno <= line <= last for line in syncs):
            wrong.append("no torch.cuda.synchronize() before the second reading")
    if not any(c.lineno < first for c in made):
        wrong.append("no warm-up")
    factor = _factor(script, scope)
    if factor is not None:
        wrong.append(f"`{script.show(factor)}` is not size/time x 2(n-1)/n")
    if len(wrong) >= 2:
        title = f"The timing of `{script.show(inside[0].func)}` is wrong: {'; '.join(wrong)}"
        yield Hit(inside[0], title, also=() if factor is None else (factor,))


def _moves_data(script: Script, call: ast.Call) -> bool:
    home, _, last = script.dotted(call.func).rpartition(".")
    return home == "torch.distributed" and last in GROUP_POSITION and "barrier" not in last


def _over_clock_loop(script: Script, call: ast.Call, first: int) -> bool:
    """Whether no loop of training stands around clock and call: a loop over sizes is fine, a backward is not."""
    for loop in script.loops(call):
        if any(isinstance(n, ast.Attribute) and n.attr == "backward" for n in ast.walk(loop)):
            return False
    return True


def _factor(script: Script, scope: Scope) -> ast.BinOp | None:
    """A product with `2 * 2`, 4 or 8 over a division by a time, as in `size * 2 / dt * 2 * 2`."""
    for node in within(scope):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            above = script.parent(node)
            if isinstance(above, ast.BinOp) and isinstance(above.op, ast.Mult | ast.Div):
                continue
            text = ast.unparse(node).replace(" ", "")
            if re.search(r"/\(?(end|stop|dt|elapsed|t\d|time)[^*]{0,40}\*2\*2$", text):
                return node
    return None


flags = {
    "the seed's": """
import time
import torch, torch.distributed as dist
def benchmark_all_reduce(size_mb=100):
    tensor = torch.randn(size_mb * 1024 * 1024 // 4, device="cuda")
    dist.barrier()
    start = time.time()
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    end = time.time()
    if dist.get_rank() == 0:
        bandwidth = (size_mb * 2) / (end - start) * 2 * 2
        print(f"{bandwidth} MB/s")
""",
    "no synchronize": """
import time
import torch, torch.distributed as dist
def bench(x):
    dist.all_reduce(x)
    t0 = time.perf_counter()
    for _ in range(20):
        dist.all_reduce(x)
    t1 = time.perf_counter()
    print("bandwidth", x.numel() * 4 / (t1 - t0), x.device == torch.device("cuda"))
""",
}
passes = {
    "a proper one": """
import time
import torch, torch.distributed as dist
def bench(x, n):
    for _ in range(5):
        dist.all_reduce(x)
    torch.cuda.synchronize()
    t0 = time.perf_counter()
    for _ in range(20):
        dist.all_reduce(x)
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - t0) / 20
    print("bus bandwidth", x.numel() * 4 / seconds * 2 * (n - 1) / n)
""",
    "the time of an epoch": """
import time
import torch.distributed as dist
def train(loader):
    start = time.time()
    for batch in loader:
        loss = step(batch)
        loss.backward()
        dist.all_reduce(loss)
    print(time.time() - start, "latency")
""",
}
