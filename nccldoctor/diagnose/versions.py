"""Which library version each process runs, and how NCCL's version numbers are spelt."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.words import ranges
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import Version
from nccldoctor.model.events.torch import BackendError
from nccldoctor.model.job import Job


@dataclass(frozen=True, slots=True)
class Running:
    """The library of one process. `version` is `2.28.9`, `cuda` what it was built with; `event` is the proof."""

    process: int
    library: str
    version: str
    cuda: str | None
    event: Event

    @property
    def name(self) -> str:
        return f"{'RCCL' if self.library == 'rccl' else 'NCCL'} {self.version}"


def spelt(number: int) -> str:
    """`2.21.5` for 22105, `2.8.4` for 2804: NCCL changed the scale with 2.9."""
    scale = 10_000 if number >= 10_000 else 1_000
    return f"{number // scale}.{number % scale // 100}.{number % 100}"


def running(job: Job) -> Mapping[int, Running]:
    """Process id → its library, as its own version line tells, else as PyTorch's error names it."""
    found: dict[int, Running] = {}
    for line in job.events(Version):
        process = job.process_of(line)
        if process is not None:
            found[process.id] = Running(process.id, line.library, line.version, line.cuda, line)
    for error in job.events(BackendError):
        process = job.process_of(error)
        if process is not None and process.id not in found and error.nccl_version:
            found[process.id] = Running(process.id, "nccl", error.nccl_version, None, error)
    return found


def by_version(job: Job, found: Iterable[Running]) -> Mapping[str, tuple[Running, ...]]:
    """`NCCL 2.28.9` → who runs it; the version that most run comes first."""
    groups = apart(found, lambda one: one.name)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return {name: tuple(members) for name, members in ordered}


def sentence(job: Job, groups: Mapping[str, Sequence[Running]]) -> str:
    """`rank 0 runs NCCL 2.21.5, rank 1 NCCL 2.26.2`, by host or process where no rank is known."""
    parts = []
    for index, (name, members) in enumerate(groups.items()):
        verb = ("runs " if len(members) == 1 else "run ") if index == 0 else ""
        parts.append(f"{_whose(job, members)} {verb}{name}")
    return ", ".join(parts)


def _whose(job: Job, members: Sequence[Running]) -> str:
    processes = [job.processes[m.process] for m in members]
    known = sorted({p.rank for p in processes if p.rank is not None})
    if len(known) == len(processes):
        return f"rank{'s' * (len(known) > 1)} {ranges(known)}"
    hosts = sorted({p.host for p in processes if p.host})
    count = f"{len(processes)} process{'es' * (len(processes) > 1)}"
    pids = ", ".join(str(p.pid) for p in processes if p.pid is not None)
    who = f"process {pids}" if len(processes) == 1 and pids else count
    return f"{who} on {', '.join(hosts[:3])}" if hosts else who
