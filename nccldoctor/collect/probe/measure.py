"""Times one step on one rank, and checks every element of what came out."""

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

from nccldoctor.collect.probe import ops, plan

ASYNC_IN_FLIGHT = 4


class Bench:
    """Measures on one device; `plant` is a fault for tests, on the rank that it names."""

    def __init__(self, torch: Any, device: Any, plant: str, rank: int) -> None:
        self.torch, self.device = torch, device
        self._cuda = device.type == "cuda"
        kind, _, rest = plant.partition(":")
        where, _, amount = rest.partition(":")
        self._plant = kind if kind and int(where) == rank else ""
        self._amount = float(amount or 10)

    def measure(self, seat: ops.Seat, step: plan.Step) -> dict[str, Any]:
        """Median and 95th percentile of the whole call, the median from this rank's own entry, and wrong elements."""
        if self._plant == "stuck" and step.group == "world":
            time.sleep(3600)
        if step.op == "barrier":
            return self._timed(seat, step, self._barrier(seat), 0, lambda: 0)
        if step.variant == "async":
            return self._async(seat, step)
        operation = ops.build(seat, step.op, step.size_bytes, step.datatype)
        if step.variant == "graph":
            return self._graph(seat, step, operation)
        bad = self._checked(operation, operation.run)
        if step.op in ("broadcast", "reduce", "scatter", "gather") and seat.size > 1:
            last = ops.build(
                seat, step.op, min(step.size_bytes, plan.MIB), step.datatype, seat.size - 1
            )
            bad += self._checked(last, last.run)
        return self._timed(seat, step, operation.run, operation.size_bytes, lambda: bad)

    def _checked(self, operation: ops.Operation, run: Callable[[], Any]) -> int:
        operation.prepare()
        self._wait()
        run()
        self._wait()
        if self._plant == "wrong" and operation.result.numel():
            operation.result[operation.result.numel() // 2] += 1
        return operation.check()

    def _timed(
        self,
        seat: ops.Seat,
        step: plan.Step,
        run: Callable[[], Any],
        size_bytes: int,
        wrong: Callable[[], int],
    ) -> dict[str, Any]:
        meet = self._barrier(seat) if step.group != "pair" else run
        for _ in range(step.warmup):
            run()
        meet()
        self._wait()
        own, whole = (self._events if self._cuda else self._clock)(run, step.iterations)
        return {
            "median_us": statistics.median(whole),
            "p95_us": sorted(whole)[min(len(whole) - 1, round(0.95 * len(whole)))],
            "own_us": statistics.median(own),
            "wrong": wrong(),
            "size_bytes": size_bytes,
        }

    def _clock(self, run: Callable[[], Any], iterations: int) -> tuple[list[float], list[float]]:
        own, whole = [], []
        before = time.perf_counter()
        for _ in range(iterations):
            self._late()
            begin = time.perf_counter()
            run()
            end = time.perf_counter()
            own.append((end - begin) * 1e6)
            whole.append((end - before) * 1e6)
            before = end
        return own, whole

    def _events(self, run: Callable[[], Any], iterations: int) -> tuple[list[float], list[float]]:
        def event() -> Any:
            return self.torch.cuda.Event(enable_timing=True)

        begins, ends = (
            [event() for _ in range(iterations)],
            [event() for _ in range(iterations + 1)],
        )
        ends[0].record()
        for begin, end in zip(begins, ends[1:], strict=True):
            self._late()
            begin.record()
            run()
            end.record()
        self._wait()
        own = [b.elapsed_time(e) * 1e3 for b, e in zip(begins, ends[1:], strict=True)]
        whole = [a.elapsed_time(b) * 1e3 for a, b in itertools.pairwise(ends)]
        return own, whole

    def _async(self, seat: ops.Seat, step: plan.Step) -> dict[str, Any]:
        """Several all_reduce in flight at once; the size is that of all together."""
        each = [
            ops.build(seat, step.op, step.size_bytes // ASYNC_IN_FLIGHT, step.datatype)
            for _ in range(ASYNC_IN_FLIGHT)
        ]
        dist = self.torch.distributed

        def run() -> None:
            for work in [dist.all_reduce(o.result, group=seat.group, async_op=True) for o in each]:
                work.wait()

        for operation in each:
            operation.prepare()
        self._wait()
        run()
        self._wait()
        bad = sum(operation.check() for operation in each)
        return self._timed(seat, step, run, sum(o.size_bytes for o in each), lambda: bad)

    def _graph(self, seat: ops.Seat, step: plan.Step, operation: ops.Operation) -> dict[str, Any]:
        torch = self.torch
        operation.run()
        self._wait()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            operation.run()
        bad = self._checked(operation, graph.replay)
        result = self._timed(seat, step, graph.replay, operation.size_bytes, lambda: bad)
        del graph  # a live graph would hold the communicator in destroy
        return result

    def _barrier(self, seat: ops.Seat) -> Callable[[], Any]:
        if not self._cuda:
            return lambda: self.torch.distributed.barrier(group=seat.group)
        token = self.torch.zeros(1, device=self.device)
        return lambda: self.torch.distributed.all_reduce(token, group=seat.group)

    def _late(self) -> None:
        if self._plant == "slow":
            time.sleep(self._amount / 1e3)

    def _wait(self) -> None:
        if self._cuda:
            self.torch.cuda.synchronize(self.device)
