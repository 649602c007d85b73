"""The collectives: their buffers, the call, what must come out, and the factor from size and time to bus bandwidth."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nccldoctor.collect.probe import values

NCCL_NAMES = {
    "all_reduce": "AllReduce",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "broadcast": "Broadcast",
    "reduce": "Reduce",
    "gather": "Gather",
    "scatter": "Scatter",
    "all_to_all": "AlltoAll",
    "sendrecv": "SendRecv",
    "barrier": "Barrier",
    "copy": "Copy",
}


def bus_factor(op: str, ranks: int) -> float:
    """Bus bandwidth ÷ algorithm bandwidth, as nccl-tests' PERFORMANCE.md derives it; size as nccl-tests counts it.

    0 where nothing crosses a link: a barrier, and every call of a single rank but a copy within its own memory.
    """
    if op == "barrier" or (ranks < 2 and op != "copy"):
        return 0.0
    if op == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if op in ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"):
        return (ranks - 1) / ranks
    return 1.0


@dataclass(frozen=True)
class Operation:
    """A collective over one group, ready to be called again and again.

    `prepare` writes the inputs and poisons the outputs, `run` calls it, `check` counts wrong elements on this rank.
    """

    size_bytes: int
    prepare: Callable[[], None]
    run: Callable[[], Any]
    check: Callable[[], int]
    result: Any


@dataclass(frozen=True)
class Seat:
    """Where this process sits: its rank inside `group`, and the group's global ranks."""

    torch: Any
    device: Any
    group: Any
    members: tuple[int, ...]
    index: int

    @property
    def size(self) -> int:
        return len(self.members)


def build(seat: Seat, op: str, size_bytes: int, datatype: str, root: int = 0) -> Operation:
    """The operation with buffers of `size_bytes`, rounded down to a whole element per rank, at least one."""
    torch, n = seat.torch, seat.size
    pattern = values.Pattern(torch, datatype, seat.device, n)
    item = torch.empty((), dtype=pattern.dtype).element_size()
    chunk = max(1, size_bytes // item // n)
    whole = chunk * n

    def empty(count: int) -> Any:
        return torch.empty(count, dtype=pattern.dtype, device=seat.device)

    make = _BUILDERS[op]
    prepare, run, check, result = make(seat, pattern, empty, chunk, whole, root)
    return Operation(whole * item, prepare, run, check, result)


def _all_reduce(
    seat: Seat, p: values.Pattern, empty: Any, chunk: int, whole: int, root: int
) -> Any:
    x, dist = empty(whole), seat.torch.distributed
    addend, total = p.addend(seat.index), p.summed(seat.size)
    return (
        lambda: values.fill(x, addend),
        lambda: dist.all_reduce(x, group=seat.group),
        lambda: values.wrong(seat.torch, x, total),
        x,
    )


def _reduce(seat: Seat, p: values.Pattern, empty: Any, chunk: int, whole: int, root: int) -> Any:
    x, dist = empty(whole), seat.torch.distributed
    addend, total = p.addend(seat.index), p.summed(seat.size)
    return (
        lambda: values.fill(x, addend),
        lambda: dist.reduce(x, seat.members[root], group=seat.group),
        lambda: values.wrong(seat.torch, x, total) if seat.index == root else 0,
        x,
    )


def _broadcast(seat: Seat, p: values.Pattern, empty: Any, chunk: int, whole: int, root: int) -> Any:
    x, dist, sent = empty(whole), seat.torch.distributed, p.values(root)
    return (
        lambda: values.fill(x, sent) if seat.index == root else x.fill_(p.poison),
        lambda: dist.broadcast(x, seat.members[root], group=seat.group),
        lambda: values.wrong(seat.torch, x, sent),
        x,
    )


def _all_gather(
    seat: Seat, p: values.Pattern, empty: Any, chunk: int, whole: int, root: int
) -> Any:
    x, out, dist = empty(chunk), empty(whole), seat.torch.distributed
    all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

    def prepare() -> None:
        values.fill(x, p.values(seat.index))
        out.fill_(p.poison)

    return (
        prepare,
        lambda: all_gather(out, x, group=seat.group),
        lambda: _wrong_parts(seat, out, chunk, p.values),
        out,
    )


def _reduce_scatter(
    seat: Seat, p: values.Pattern, empty: Any, chunk: int, whole: int, root: int
) -> Any:
    x, out, dist = empty(whole), empty(chunk), seat.torch.distributed
    reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    total = p.summed(seat.size, first=seat.index * chunk % values.PERIOD)

    def prepare() -> None:
        values.fill(x, p.addend(seat.index))
        out.fill_(p.poison)

    return (
        prepare,
        lambda: reduce_scatter(out, x, group=seat.group),
        lambda: values.wrong(seat.torch, out, total),
        out,
    )


def _gather(seat: Seat, p: values.Pattern, empty: Any, chunk: int, whole: int, root: int) -> Any:
    mine, dist, here = empty(chunk), seat.torch.distributed, seat.index == root
    out = empty(whole if here else 0)

    def prepare() -> None:
        values.fill(mine, p.values(seat.index))
        out.fill_(p.poison)

    parts = list(out.view(seat.size, chunk)) if here else None
    return (
        prepare,
        lambda: dist.gather(mine, parts, seat.members[root], group=seat.group),
        lambda: _wrong_parts(seat, out, chunk, p.values) if here else 0,
        out if here else mine,
    )


def _scatter(seat: Seat, p: values.Pattern, empty: Any, chunk: int, whole: int, root: int) -> Any:
    mine, dist, here = empty(chunk), seat.torch.distributed, seat.index == root
    parts = list(empty(whole).view(seat.size, chunk)) if here else None

    def prepare() -> None:
        for index, part in enumerate(parts or ()):
            values.fill(part, p.values(root, index))
        mine.fill_(p.poison)

    return (
        prepare,
        lambda: dist.scatter(mine, parts, seat.members[root], group=seat.group),
        lambda: values.wrong(seat.torch, mine, p.values(root, seat.index)),
        mine,
    )


def _all_to_all(
    seat: Seat, p: values.Pattern, empty: Any, chunk: int, whole: int, root: int
) -> Any:
    x, out, dist = empty(whole), empty(whole), seat.torch.distributed

    def prepare() -> None:
        for part in range(seat.size):
            values.fill(x[part * chunk : (part + 1) * chunk], p.values(seat.index, part))
        out.fill_(p.poison)

    return (
        prepare,
        lambda: dist.all_to_all_single(out, x, group=seat.group),
        lambda: _wrong_parts(seat, out, chunk, lambda sender: p.values(sender, seat.index)),
        out,
    )


def _sendrecv(seat: Seat, p: values.Pattern, empty: Any, chunk: int, whole: int, root: int) -> Any:
    """Each rank sends to the next and receives from the one before, all at once."""
    x, out, dist = empty(whole), empty(whole), seat.torch.distributed
    after = seat.members[(seat.index + 1) % seat.size]
    before = (seat.index - 1) % seat.size

    def prepare() -> None:
        values.fill(x, p.values(seat.index))
        out.fill_(p.poison)

    def run() -> None:
        if seat.size == 1:
            out.copy_(x)
            return
        calls = [
            dist.P2POp(dist.isend, x, after, seat.group),
            dist.P2POp(dist.irecv, out, seat.members[before], seat.group),
        ]
        for work in dist.batch_isend_irecv(calls):
            work.wait()

    return prepare, run, lambda: values.wrong(seat.torch, out, p.values(before)), out


def _copy(seat: Seat, p: values.Pattern, empty: Any, chunk: int, whole: int, root: int) -> Any:
    """No collective: each device copies within its own memory, so that a slow one shows by itself."""
    x, out, sent = empty(whole), empty(whole), p.values(seat.index)

    def prepare() -> None:
        values.fill(x, sent)
        out.fill_(p.poison)

    return prepare, lambda: out.copy_(x), lambda: values.wrong(seat.torch, out, sent), out


def _wrong_parts(seat: Seat, out: Any, chunk: int, expected: Callable[[int], Any]) -> int:
    return sum(
        values.wrong(seat.torch, out[i * chunk : (i + 1) * chunk], expected(i))
        for i in range(seat.size)
    )


_BUILDERS: dict[str, Callable[..., Any]] = {
    "all_reduce": _all_reduce,
    "reduce": _reduce,
    "broadcast": _broadcast,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "gather": _gather,
    "scatter": _scatter,
    "all_to_all": _all_to_all,
    "sendrecv": _sendrecv,
    "copy": _copy,
}
