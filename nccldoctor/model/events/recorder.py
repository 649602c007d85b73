"""PyTorch's flight recorders, a dump a rank."""

from collections.abc import Sequence
from dataclasses import dataclass

from nccldoctor.model.calls import Call
from nccldoctor.model.event import Event
from nccldoctor.model.events.torch import StackFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderGroup:
    """A process group as a dump knows it: `name` is shared by its members; `ranks` are global."""

    name: str
    description: str
    ranks: tuple[int, ...]
    enqueued: int | None = None
    started: int | None = None
    completed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderEntry:
    """One recorded operation; `sequence` counts collectives of the group, `state` is scheduled, started or completed.

    `name` is the operation as PyTorch wrote it, without the backend (`_all_gather_base`, `all_reduce_barrier`).
    Times are seconds since 1970; None where the recorder has none (Gloo: always).
    """

    group: str
    sequence: int
    call: Call
    state: str
    backend: str
    retired: bool = False
    p2p_sequence: int | None = None
    created: float | None = None
    completed: float | None = None
    timeout_ms: int | None = None
    frames: tuple[StackFrame, ...] = ()
    input_sizes: tuple[tuple[int, ...], ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    name: str = ""
    p2p: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderDump(Event):
    """One rank's flight recorder. `speaker.rank` is the rank in the file's name, as PyTorch writes it.

    `entries` is a `RecorderLog` where a file was read: 2,000 of them take 80 kB, not 2 MB.
    """

    version: str
    library_version: str | None
    groups: tuple[RecorderGroup, ...]
    entries: Sequence[RecorderEntry]
