"""Where a fact comes from: the input file, the line in it, and who wrote that line."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class Kind(str, Enum):
    """What an input is, told by looking at its content and never by its name."""

    LOG = "log"  # text: NCCL, PyTorch, launcher, kernel and program lines, mixed as they come
    RECORDER = "flight-recorder"  # PyTorch's dump, pickle or JSON
    RAS = "ras"  # NCCL RAS answer, text or JSON
    TOPOLOGY = "topology-xml"  # NCCL_TOPO_DUMP_FILE or NCCL_GRAPH_DUMP_FILE
    SMI = "nvidia-smi"  # `nvidia-smi`, `-q`, `topo -m`, `nvlink -s`
    INSPECTOR = "inspector"  # NCCL Inspector JSONL
    SNAPSHOT = "snapshot"  # nccldoctor's own JSON: host state, probe results
    DIGEST = "digest"  # nccldoctor's own digest of logs (.ncd)
    EMPTY = "empty"
    FOREIGN = "foreign"  # readable, but nothing that nccldoctor knows
    UNREADABLE = "unreadable"


ENDS_INSIDE = "ends in the middle of a line"
"""In the note of a text that was cut, or is still being written."""
LACKS_MIDDLE = "its middle was left out"
"""In the note of a log that nccldoctor kept within its limit."""


@dataclass(frozen=True, slots=True)
class Source:
    """One input. `path` is what reports show; `note` is one sentence when something was off."""

    path: str
    kind: Kind
    size_bytes: int
    lines: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of evidence: `number` counts from 1, and is 0 where the file has no lines.

    `text` is the raw line as a stranger wrote it, cut at 2,000 characters.
    """

    file: str
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who wrote a line, as far as its header, its prefixes and its file tell; None where they do not.

    `rank` is the global rank (PyTorch's `[rank3]:`), `local_rank` that on the host (torchrun's
    `[default3]:`), `device` the CUDA device of the writing thread, which is *not* a rank.
    """

    host: str | None = None
    pid: int | None = None
    tid: int | None = None
    device: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    time: datetime | None = None


NOBODY = Speaker()
