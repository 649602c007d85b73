"""Signs that a job stands still, and not only that its files stop."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nccldoctor.diagnose.places import stacks, waits
from nccldoctor.model.events.ras import RasPeer, RasSnapshot
from nccldoctor.model.events.torch import (
    DumpSignal,
    GlooError,
    GroupProgress,
    PythonException,
    WatchdogTimeout,
)
from nccldoctor.model.events.trouble import PeerClosed
from nccldoctor.model.events.watched import HangObserved
from nccldoctor.model.job import Job, Lane, Origin
from nccldoctor.model.source import ENDS_INSIDE, Line


@dataclass(frozen=True, slots=True)
class Sign:
    """One sign; `strong` when it cannot come from a job that is merely under way."""

    what: str
    line: Line
    strong: bool


def signs(job: Job) -> list[Sign]:
    """All signs, strong ones first."""
    return sorted(_signs(job), key=lambda sign: not sign.strong)


def _signs(job: Job) -> Iterable[Sign]:
    for timeout in job.events(WatchdogTimeout)[:2]:
        yield Sign("PyTorch's watchdog timed out", timeout.line, True)
    for signal in [*job.events(DumpSignal)[:1], *job.events(GroupProgress)[:1]]:
        yield Sign("PyTorch's watchdog stopped the job", signal.line, True)
    for gloo in job.events(GlooError):
        if gloo.kind == "timeout":
            yield Sign("Gloo timed out", gloo.line, True)
            break
    for gone in [e for e in job.events(GlooError) if e.kind == "peer-closed"][:1]:
        yield Sign("Gloo lost a peer", gone.line, True)
    for error in job.events(PythonException):
        if "imed out" in error.message or "timeout" in error.message.lower():
            yield Sign("a call timed out", error.line, True)
            break
    for observed in job.events(HangObserved)[:1]:
        yield Sign("nccldoctor saw no progress", observed.line, True)
    for closed in job.events(PeerClosed)[:1]:
        yield Sign("a peer closed its connection", closed.line, True)
    standing = [s for s in stacks(job).values() if waits(s.frames)]
    if standing:
        yield Sign(
            f"{len(standing)} rank{'s' * (len(standing) > 1)} wait{'s' * (len(standing) == 1)} inside PyTorch",
            standing[0].line,
            True,
        )
    for peer in job.events(RasPeer):
        if peer.event == "PEER_DEAD":
            yield Sign("RAS calls a process dead", peer.line, True)
            break
    yield from _ras(job)
    yield from _transfers(job)
    for lane in job.lanes:
        if _pending(lane) and lane.line is not None:
            yield Sign("the flight recorder has calls that never completed", lane.line, False)
            break


def _transfers(job: Job) -> Iterable[Sign]:
    for transfer in job.transfers:
        if transfer.origin is Origin.RECORDER and transfer.lines:
            what = "the flight recorder has point-to-point calls that never completed"
            yield Sign(what, transfer.lines[0], False)
            return


def _ras(job: Job) -> Iterable[Sign]:
    repeated = next(
        (lane for lane in job.lanes if lane.origin is Origin.RAS and lane.seen > 1), None
    )
    if repeated is not None and repeated.line is not None:
        what = f"RAS shows the same counts at {repeated.seen} moments"
        yield Sign(what, repeated.line, True)
    for snapshot in job.events(RasSnapshot):
        if any(comm.mismatch or comm.missing for comm in snapshot.communicators):
            yield Sign("RAS shows ranks out of step", snapshot.line, False)
            break


def _pending(lane: Lane) -> bool:
    return (
        lane.origin is Origin.RECORDER
        and lane.completed is not None
        and lane.completed < lane.issued
    )


UNPROVED = (
    "Cut or hung: these logs alone cannot tell. Two looks at RAS, or the ranks' stacks, would."
)


def is_unproved(job: Job, told_by: Iterable[Origin], seen: Sequence[Sign]) -> bool:
    """Do only NCCL's own call lines speak, and nothing says that the job stands still?

    A log that was copied while the job ran, or that lost its end, then looks just the same.
    """
    return not seen and set(told_by) == {Origin.CALLS}


def is_excerpt(job: Job, lanes: Iterable[Lane]) -> bool:
    """Were these ranks' logs cut at one length or one line, so that different counts mean nothing?"""
    sources = {s.path: s for s in job.sources}
    files = {lane.line.file: lane.line.number for lane in lanes if lane.line is not None}
    if len(files) < 2:
        return False
    sizes = [sources[f].size_bytes for f in files if f in sources]
    lengths = [sources[f].lines for f in files if f in sources]
    return _one_value(sizes) or _one_value(lengths)


def is_cut(job: Job, lanes: Iterable[Lane]) -> bool:
    """Does one of these ranks' logs end in the middle of a line?"""
    files = {lane.line.file for lane in lanes if lane.line is not None}
    return any(s.path in files and ENDS_INSIDE in s.note for s in job.sources)


def _one_value(numbers: list[int]) -> bool:
    return len(numbers) > 1 and len(set(numbers)) == 1 and numbers[0] > 0
