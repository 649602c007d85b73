"""What the probe does, step by step: a pure function of its settings and of who takes part."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

OPS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "all_to_all",
    "sendrecv",
)
DATATYPES = ("bfloat16", "float16", "float64", "int32", "int64", "uint8")


@dataclass(frozen=True, slots=True)
class Settings:
    """One probe. `steps` is quick, full, lever, single, pair or ping; `plant` is a fault for tests: `wrong:1`, `slow:1:20`, `stuck:1`.

    `store` is the file of a FileStore, or "" where the launcher's MASTER_ADDR leads to a TCP store.
    `seconds` is the time after which no further step begins, counted from the first; `until` the same on the monotonic clock.
    """

    steps: str = "full"
    device: str = "cpu"
    backend: str = "gloo"
    store: str = ""
    largest_bytes: int = GIB
    seconds: float = 600.0
    until: float = 0.0
    plant: str = ""
    diagnostics: bool = True

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Settings":
        return Settings(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Step:
    """One measured and checked call. `group` is world, half, host, rail or pair; `variant` is async, graph or empty."""

    op: str
    size_bytes: int
    datatype: str = "float32"
    group: str = "world"
    variant: str = ""
    warmup: int = 2
    iterations: int = 10

    @property
    def name(self) -> str:
        extra = "".join(
            f" {x}" for x in (self.variant, self.group if self.group != "world" else "") if x
        )
        return f"{self.op} {self.datatype} {human(self.size_bytes)}{extra}"


@dataclass(frozen=True, slots=True)
class Groups:
    """Which ranks form which sub-groups; one entry of `by_name` lists groups that do not overlap."""

    by_name: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)

    def of(self, name: str, rank: int) -> tuple[int, ...] | None:
        return next((g for g in self.by_name.get(name, ()) if rank in g), None)


def human(size_bytes: int) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:g} {name}"
    return f"{size_bytes} B"


def version_of(number: int) -> tuple[int, int, int]:
    """NCCL's version from its number, as nccl.h makes it: 22809 is 2.28.9, and up to 2.8 it was 2804 for 2.8.4."""
    major, rest = divmod(number, 10_000 if number >= 10_000 else 1_000)
    return major, *divmod(rest, 100)


def groups(hosts: Sequence[str]) -> Groups:
    """Sub-groups of the ranks on `hosts[rank]`: halves, the ranks of one host, and one rank of each host."""
    world = len(hosts)
    found: dict[str, tuple[tuple[int, ...], ...]] = {"world": (tuple(range(world)),)}
    if world >= 4:
        found["half"] = (tuple(range(world // 2)), tuple(range(world // 2, world)))
    local: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        local.setdefault(host, []).append(rank)
    if len(local) > 1:
        if min(map(len, local.values())) > 1:
            found["host"] = tuple(tuple(ranks) for ranks in local.values())
        width = min(map(len, local.values()))
        found["rail"] = tuple(tuple(ranks[i] for ranks in local.values()) for i in range(width))
    return Groups(found)


def steps(settings: Settings, known: Groups, largest_bytes: int) -> list[Step]:
    """The steps of this probe, cheap and telling ones first; none larger than `largest_bytes`."""
    cuda = settings.device == "cuda"
    sizes = [s for s in _sizes(settings, cuda) if s <= largest_bytes] or [largest_bytes]
    middle, large = sizes[len(sizes) // 2], sizes[-1]
    subgroups = [name for name in known.by_name if name != "world"]
    if settings.steps == "ping":
        return [Step("all_reduce", 4 * KIB, iterations=3)]
    if settings.steps in ("single", "pair"):
        return [Step("all_reduce", size) for size in sizes]
    if settings.steps == "lever":
        return [
            Step("all_reduce", sizes[0], warmup=5, iterations=20),
            *(Step("all_reduce", size, warmup=3, iterations=5) for size in sizes[1:]),
        ]
    if settings.steps == "quick":
        first = [Step(op, size) for size in sizes for op in OPS]
        extra = [
            Step("all_reduce", middle, "bfloat16"),
            Step("all_reduce", middle, variant="async"),
        ]
        return [
            *first,
            *extra,
            *_graph(cuda, middle),
            *(Step("all_reduce", large, group=name) for name in subgroups),
            Step("barrier", 0),
            Step("copy", large),
        ]
    return [
        *(Step(op, size, warmup=3, iterations=20) for size in sizes for op in OPS),
        *(Step(op, middle, kind) for kind in DATATYPES for op in ("all_reduce", "all_gather")),
        *(Step("all_reduce", size, variant="async") for size in (middle, large)),
        *_graph(cuda, middle),
        *(
            Step(op, size, group=name)
            for name in subgroups
            for size in (middle, large)
            for op in ("all_reduce", "all_gather", "all_to_all")
        ),
        Step("barrier", 0, iterations=50),
        Step("copy", large, iterations=20),
    ]


def _sizes(settings: Settings, cuda: bool) -> list[int]:
    if settings.steps == "quick":
        return [64 * KIB, 4 * MIB, 256 * MIB] if cuda else [KIB, 64 * KIB, MIB]
    if settings.steps == "lever":
        return [16 * KIB, 64 * MIB, 512 * MIB] if cuda else [16 * KIB, MIB]
    if settings.steps in ("single", "pair"):
        return [64 * KIB, 64 * MIB] if cuda else [64 * KIB]
    sizes = [KIB, 16 * KIB, 256 * KIB, 4 * MIB, 64 * MIB, 256 * MIB, GIB]
    return sizes if cuda else sizes[:4]


def _graph(cuda: bool, size: int) -> list[Step]:
    return [Step("all_reduce", size, variant="graph")] if cuda else []


def rounds(hosts: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Rounds of disjoint pairs: within each host every pair once; across hosts the i-th ranks, O(log hosts) rounds."""
    local: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        local.setdefault(host, []).append(rank)
    tables = [_round_robin(ranks) for ranks in local.values()]
    inside = [
        [pair for table in tables if i < len(table) for pair in table[i]]
        for i in range(max(map(len, tables), default=0))
    ]
    names, across = list(local), []
    stride = 1
    while stride < len(names):
        meeting = []
        for first in range(len(names)):
            second = first ^ stride
            if first < second < len(names):
                meeting += list(zip(local[names[first]], local[names[second]], strict=False))
        across.append(meeting)
        stride *= 2
    return [r for r in inside + across if r]


def _round_robin(ranks: Sequence[int]) -> list[list[tuple[int, int]]]:
    seats: list[int | None] = [*ranks, *([None] * (len(ranks) % 2))]
    result = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        pairs = zip(seats[:half], reversed(seats[half:]), strict=True)
        result.append([(min(a, b), max(a, b)) for a, b in pairs if a is not None and b is not None])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return result
