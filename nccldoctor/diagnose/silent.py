"""The rank that said nothing while all others gave up waiting, where only their outputs and the launcher tell."""

import re
from collections.abc import Iterable

from nccldoctor.diagnose import places
from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import ranges, who_ranks
from nccldoctor.model.event import Event
from nccldoctor.model.events.torch import (
    GlooError,
    ProcessEnded,
    PythonException,
    StackFrame,
    WatchdogTimeout,
)
from nccldoctor.model.finding import Confidence
from nccldoctor.model.job import Job
from nccldoctor.model.source import Line

_TORCHRUN = re.compile(r"/attempt_\d+/(\d{1,6})/std(?:err|out)\.log$")
_SETTING_UP = frozenset({"init_process_group", "new_group", "_new_process_group_helper"})


def silent(job: Job) -> Iterable[Found]:
    """All ranks but a few timed out or lost the connection, and those few, whose outputs are here too, said nothing."""
    gave_up = _gave_up(job)
    ended = {e.ended_rank: e for e in job.events(ProcessEnded) if e.ended_rank is not None}
    outputs = _outputs(job, gave_up)
    known = {*outputs, *ended, *(p.rank for p in job.processes if p.rank is not None and p.files)}
    absent = sorted(known - gave_up.keys())
    spoke = {r for e in job.events(PythonException) if (r := job.rank_of(e)) is not None}
    failed = any(r in spoke or _by_itself(ended.get(r)) for r in absent)
    fine = bool(ended) and all(e.exit_code == 0 for e in ended.values())
    if (
        not absent
        or failed
        or fine
        or len(absent) > len(gave_up)
        or job.partial
        or _setting_up(job)
    ):
        return
    shown = [
        ended[r].line if r in ended else outputs[r] for r in absent if r in ended or r in outputs
    ]
    if not shown:
        return
    at = places.grouped(_frames(job, gave_up))
    waiting = f"rank{'s' * (len(gave_up) > 1)} {ranges(gave_up)}"
    yield Found(
        title=(
            f"{who_ranks(absent, job.hosts_of_ranks(absent))} said nothing while {waiting} waited in vain"
            + (f" ({at})" if at else "")
            + f": {'it' if len(absent) == 1 else 'they'} did not come to that call"
        ),
        evidence=(*shown[:2], *(e.line for e in list(gave_up.values())[:3])),
        confidence=Confidence.MEDIUM,
        ranks=tuple(absent),
        hosts=job.hosts_of_ranks(absent),
        explanation=(
            "Who reports a time-out or a lost connection was waiting. The rank without a word was elsewhere, or had "
            "already ended, until the launcher stopped it; only its stack would tell where."
        ),
    )


def _gave_up(job: Job) -> dict[int, Event]:
    """Rank → its first complaint of a time-out or a lost connection."""
    found: dict[int, Event] = {}
    gloo = [e for e in job.events(GlooError) if e.kind in ("timeout", "peer-closed")]
    for event in [*gloo, *job.events(WatchdogTimeout)]:
        rank = job.rank_of(event)
        if rank is not None:
            found.setdefault(rank, event)
    return dict(sorted(found.items()))


def _outputs(job: Job, gave_up: dict[int, Event]) -> dict[int, Line]:
    """Rank → its empty output, in torchrun's folders of one host: there the local rank is the global one."""
    folders = {s.path: int(m[1]) for s in job.sources if (m := _TORCHRUN.search(s.path))}
    if any(folders.get(e.line.file, rank) != rank for rank, e in gave_up.items()):
        return {}
    return {r: Line(p, 0, "empty") for p, r in sorted(folders.items(), reverse=True)}


def _by_itself(end: ProcessEnded | None) -> bool:
    return end is not None and end.exit_code != 0 and not end.by_launcher


def _setting_up(job: Job) -> bool:
    """Did the complaints come from the creation of groups, which other diagnoses tell?"""
    return any(
        frame.function in _SETTING_UP for e in job.events(PythonException) for frame in e.frames
    )


def _frames(job: Job, gave_up: dict[int, Event]) -> dict[int, StackFrame]:
    found: dict[int, StackFrame] = {}
    for error in job.events(PythonException):
        rank, frame = job.rank_of(error), places.user_frame(error.frames)
        if rank in gave_up and frame is not None and rank is not None:
            found.setdefault(rank, frame)
    return found
