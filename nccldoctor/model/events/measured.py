"""What the probe and nccl-tests measured, and what failed under them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nccldoctor.model.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthRow(Event):
    """One measured collective: nccl-tests, the probe or Inspector. GB/s are 10^9 bytes a second.

    `op` is NCCL's word (AllReduce, AlltoAll, SendRecv). Of the probe also: `group` (world, half, host, rail, pair,
    single, lever), `variant` (async, graph, a lever's name), `members` (global ranks), `wrong_by_rank`, and
    `rank_us`: each rank's median time from its own entry, so that a late rank has the shortest.
    """

    op: str
    size_bytes: int
    time_us: float
    algorithm_gbytes_per_second: float
    bus_gbytes_per_second: float
    ranks: int | None = None
    wrong: int | None = None
    origin: str = "nccl-tests"
    datatype: str | None = None
    group: str = "world"
    variant: str = ""
    p95_us: float | None = None
    members: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    wrong_by_rank: Mapping[int, int] = field(default_factory=dict)
    rank_us: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFailure(Event):
    """A step of the probe that did not end in time (`stuck`) or whose rank died (`failed`); ranks are global.

    `step` is the collective, or `single 3` and `pair 2-3` of the isolation; `missing` never reached the step, or died.
    """

    step: str
    kind: str
    ranks: tuple[int, ...]
    missing: tuple[int, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeLever(Event):
    """One NCCL setting tried by `probe --levers`: `state` is ok, wrong, stuck, failed or `already so`.

    `variables` is what was set, nothing for the plain run; `layer` what is at fault when only the plain run fails.
    `bus_gbytes_per_second` is the best of all sizes, `smallest_us` the time of the smallest message.
    """

    name: str
    state: str
    variables: Mapping[str, str] = field(default_factory=dict)
    layer: str = ""
    bus_gbytes_per_second: float = 0.0
    smallest_us: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRank(Event):
    """Where one rank of the probe ran; `passed` tells whether its single-device test did (None: not made)."""

    rank: int
    host: str
    device: str
    bus_id: str | None = None
    passed: bool | None = None
