"""Collective calls: the single call, and the compact table of the many."""

from collections.abc import Mapping
from dataclasses import dataclass, field

WINDOW = 1024
"""Calls per digest in `CallTable.windows`."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call as NCCL or PyTorch names it. Equal calls on all ranks match; `op_count` is only evidence.

    `op` is NCCL's word (`AllReduce`), whatever the source; `count` in elements; `datatype`, `redop` by name
    (`float32`, `sum`); `root` is the root, or the peer for Send and Recv; None where the source does not tell.
    """

    op: str
    count: int | None = None
    datatype: str | None = None
    redop: str | None = None
    root: int | None = None

    def __str__(self) -> str:
        count = "" if self.count is None else f", {self.count} element{'s' * (self.count != 1)}"
        kind = f", {self.datatype}" if self.datatype else ""
        redop = f", {self.redop}" if self.redop and self.op in REDUCING else ""
        root = f", root {self.root}" if self.root is not None and self.op in ROOTED else ""
        peer = f", peer {self.root}" if self.root is not None and self.op in POINT_TO_POINT else ""
        return f"{self.op}{count}{kind}{redop}{root}{peer}".replace(", ", "(", 1) + (
            ")" if count or kind or redop or root or peer else ""
        )


REDUCING = frozenset({"AllReduce", "Reduce", "ReduceScatter"})
ROOTED = frozenset({"Broadcast", "Reduce", "Gather", "Scatter"})
POINT_TO_POINT = frozenset({"Send", "Recv"})


@dataclass(frozen=True, slots=True)
class CallTable:
    """The calls of one process on one communicator, in order, without an object per call.

    A communicator pointer is reused after destroy, so (`host`, `pid`, `comm`, `generation`) is the key.
    `windows` holds one 8-byte digest per WINDOW calls; `tail` the calls after the last full window;
    `seek` pairs (ordinal of a call, byte offset in `file`) to re-read from; Send and Recv are not in
    `count`, `windows` and `tail` but in `peers`: (op, peer) → number of calls. `place` is (file, offset,
    size) where the input is a part of a file, as the member of a tar file is, or was spooled; None: `file` itself.
    `earlier` are the tables of older parts of a rotated log, oldest first: their calls come first, and `count` counts them
    too. `holed`: the log lost its middle after the communicator's set-up, so that `count` means nothing.
    """

    file: str
    host: str
    pid: int
    device: int | None
    comm: str
    generation: int
    nranks: int | None
    count: int
    windows: tuple[bytes, ...] = ()
    tail: tuple[Call, ...] = ()
    last: Call | None = None
    last_line: int = 0
    last_text: str = ""
    last_op_count: int | None = None
    seek: tuple[tuple[int, int], ...] = ()
    mix: Mapping[Call, int] = field(default_factory=dict)
    peers: Mapping[tuple[str, int], int] = field(default_factory=dict)
    place: tuple[str, int, int | None] | None = None
    earlier: "tuple[CallTable, ...]" = ()
    holed: bool = False
