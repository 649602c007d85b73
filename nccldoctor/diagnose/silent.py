"""Ranks that said nothing more while all others gave up waiting: by the watchdogs' numbers, else by outputs and the launcher."""

import re
from collections.abc import Iterable

from nccldoctor.diagnose import places
from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.mismatch import parted
from nccldoctor.diagnose.words import ranges, who_ranks
from nccldoctor.model.event import Event
from nccldoctor.model.events.torch import (
    GlooError,
    ProcessEnded,
    PythonException,
    RankHeard,
    StackFrame,
    WatchdogTimeout,
)
from nccldoctor.model.events.trouble import PeerClosed
from nccldoctor.model.finding import Confidence
from nccldoctor.model.job import Job, Lane, Origin
from nccldoctor.model.source import Line

_TORCHRUN = re.compile(r"/attempt_\d+/(\d{1,6})/std(?:err|out)\.log$")
_SETTING_UP = frozenset({"init_process_group", "new_group", "_new_process_group_helper"})

_LAST_WORDS: tuple[type[Event], ...] = (WatchdogTimeout, PeerClosed, PythonException, GlooError)
"""What ranks say that were stopped from outside, or by a fault of their own."""


def by_watchdogs(job: Job) -> Iterable[Found]:
    """The watchdogs of most ranks stopped the job at one call, and of a rank that was there before nothing came."""
    timeouts = job.events(WatchdogTimeout)
    lanes: dict[str, dict[int, Lane]] = {}
    for lane in job.lanes:
        if lane.origin is Origin.WATCHDOG:
            lanes.setdefault(lane.communicator, {})[lane.rank] = lane
    for ident, told in sorted(lanes.items()):
        comm = job.communicator(ident)
        quiet = [m for m in comm.members if m.rank not in told and m.global_rank is not None]
        if not quiet or len(quiet) >= len(told) or job.partial or parted(job, ident):
            continue
        heard = {job.rank_of(e) for e in job.events(RankHeard)}
        spoke = {job.rank_of(e) for kind in _LAST_WORDS for e in job.events(kind)}
        silent = [m.rank for m in quiet if m.global_rank in heard - spoke]
        if not silent or len(silent) < len(quiet):
            continue
        waiting = ranges(places.shown_ranks(comm, told))
        call = next((lane.last for lane in told.values() if lane.last is not None), None)
        number = min(lane.issued for lane in told.values())
        if any(lane.completed is None or lane.completed < lane.issued for lane in told.values()):
            what = f"failed in #{number}{f' {call}' if call is not None else ''} of {comm.name}"
        else:
            what = f"of {comm.name} were stopped by PyTorch's watchdog"
        yield Found(
            title=f"{places.name(job, comm, silent)} said nothing more, while ranks {waiting} {what}",
            evidence=(
                *(e.line for e in timeouts[:2]),
                *(lane.line for lane in list(told.values())[:2] if lane.line is not None),
            ),
            confidence=Confidence.MEDIUM,
            ranks=places.shown_ranks(comm, silent),
            hosts=places.hosts(job, comm, silent),
            explanation=(
                "Every rank that lives and waits hears of a time-out and says so. One that does not has died, has ended, or "
                "is stopped: look at how its process ended."
            ),
        )
        return


def by_outputs(job: Job) -> Iterable[Found]:
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
