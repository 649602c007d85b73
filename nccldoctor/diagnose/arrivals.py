"""When ranks came to the same collectives, by their flight recorders, with clocks put right by when calls ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from nccldoctor.model.events.recorder import RecorderDump
from nccldoctor.model.events.recorder_log import RecorderLog
from nccldoctor.model.job import Job

LOOKED_AT = 64
"""Of each rank, so many of the last completed collectives are compared."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """One rank that comes last, again and again. `behind_seconds` to the last but one, `step_seconds` between calls."""

    group: str
    rank: int
    last_in: int
    compared: int
    behind_seconds: float
    step_seconds: float
    dump: RecorderDump


def stragglers(job: Job) -> list[Straggler]:
    """One a group at most, sorted; only from dumps that tell when calls ended, else clocks may differ."""
    groups: dict[tuple[str, tuple[int, ...]], dict[int, RecorderDump]] = {}
    for dump in job.events(RecorderDump):
        if dump.speaker.rank is None or not isinstance(dump.entries, RecorderLog):
            continue
        for group in dump.groups:
            if dump.speaker.rank in group.ranks and len(group.ranks) > 1:
                groups.setdefault((group.name, group.ranks), {})[dump.speaker.rank] = dump
    found = []
    for (name, ranks), dumps in sorted(groups.items()):
        if len(dumps) == len(ranks) and (one := _straggler(name, dumps)) is not None:
            found.append(one)
    return found


def _straggler(group: str, dumps: Mapping[int, RecorderDump]) -> Straggler | None:
    times = {rank: _times(group, dump.entries) for rank, dump in dumps.items()}
    common = sorted(set.intersection(*(set(t) for t in times.values())))[-LOOKED_AT:]
    common = common[len(common) // 4 :]
    if len(common) < 8:
        return None
    ended = {n: median(t[n][1] for t in times.values()) for n in common}
    offset = {rank: median(t[n][1] - ended[n] for n in common) for rank, t in times.items()}
    gaps: dict[int, list[float]] = {}
    for number in common:
        came = sorted((t[number][0] - offset[rank], rank) for rank, t in times.items())
        gaps.setdefault(came[-1][1], []).append(came[-1][0] - came[-2][0])
    rank, behind = max(gaps.items(), key=lambda item: (len(item[1]), -item[0]))
    span = ended[common[-1]] - ended[common[0]]
    return Straggler(
        group=group,
        rank=rank,
        last_in=len(behind),
        compared=len(common),
        behind_seconds=median(behind) / 1e9,
        step_seconds=span / 1e9 / (len(common) - 1),
        dump=dumps[rank],
    )


def _times(group: str, log: Sequence[object]) -> dict[int, tuple[int, int]]:
    """Sequence → (made, seen to have ended), in nanoseconds, of the group's last completed collectives."""
    if not isinstance(log, RecorderLog):
        return {}
    wanted = [shape.group == group and not shape.p2p for shape in log.shapes]
    found: dict[int, tuple[int, int]] = {}
    columns = log.shape, log.sequence, log.created_ns, log.completed_ns
    for shape, number, made, ended in zip(*map(reversed, columns), strict=True):
        if wanted[shape] and made and ended:
            found.setdefault(number, (made, ended))
            if len(found) == LOOKED_AT:
                break
    return found
