"""What RAS, NCCL's own watchman, answers and reports."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nccldoctor.model.event import Event
from nccldoctor.model.source import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class RasRank:
    """One rank of a communicator as RAS sees it: launch counts per collective, no completion.

    Text answers tell host and pid of outliers only: "" and -1 stand for "not told". `launched` is keyed by NCCL's word;
    `Collective` is the one count of 2.24 and 2.25.
    """

    rank: int
    host: str
    pid: int
    device: int | None = None
    launched: Mapping[str, int] = field(default_factory=dict)
    init_state: int = 0
    async_error: int = 0
    finalizing: bool = False
    destroying: bool = False
    aborting: bool = False
    line: Line | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RasMissing:
    """A rank that did not answer RAS."""

    rank: int
    host: str | None = None
    pid: int | None = None
    considered_dead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RasComm:
    """One communicator of a RAS answer; `id` is `0x` and hexadecimal digits as in the log's commId (2.26+)."""

    id: str
    size: int
    ranks: tuple[RasRank, ...]
    missing: tuple[RasMissing, ...] = ()
    line: Line | None = None
    mismatch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RasGroup:
    """A row of the text answer's table: communicators that look alike, with their common status and errors."""

    number: int
    communicators: int
    size: int
    status: str
    errors: str
    line: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class RasSnapshot(Event):
    """One answer of NCCL RAS: a state at one moment, not yet a hang. `speaker.time` where the answer tells.

    `mended` when its JSON was not valid as NCCL wrote it.
    """

    nccl_version: str | None
    communicators: tuple[RasComm, ...]
    collection_timeouts: int = 0
    groups: tuple[RasGroup, ...] = ()
    mended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RasPeer(Event):
    """An event of RAS's monitor: `PEER_DEAD: Process 1524345 on node 172.16.64.245 managing GPU 1`."""

    event: str
    peer_host: str | None = None
    peer_pid: int | None = None
