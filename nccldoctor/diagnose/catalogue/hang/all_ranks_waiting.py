"""All ranks entered a collective, and none of them left it.

Nobody is missing, so the program is not the first suspect: a network that loses packets, a GPU or NIC that stands
still, a transport that works one way only, or settings that differ between ranks (NCCL_ALGO, NCCL_PROTO, buffer sizes)
make a collective wait for data that never comes.
A job under way also has calls that are not complete: only a time-out, or RAS answers at several moments, make it a hang.
"""

from collections.abc import Iterable

from nccldoctor.diagnose import places, standing, stuck
from nccldoctor.diagnose.diagnosis import Found, Sample
from nccldoctor.diagnose.mismatch import parted
from nccldoctor.diagnose.standing import Standing
from nccldoctor.diagnose.words import nth, ranges
from nccldoctor.model.events.nccl import Edge, EnvironmentSet
from nccldoctor.model.events.ras import RasSnapshot
from nccldoctor.model.events.torch import WatchdogTimeout
from nccldoctor.model.events.trouble import CompletionError
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job, Origin

code = "HANG02"
name = "all-ranks-waiting"
severity = Severity.ERROR
needs = (Evidence.WATCHDOG, Evidence.RECORDER, Evidence.RAS)
explains = ("HANG04", "HANG05", "HANG06", "NET10")
look_first = True
confirm = (
    "nccldoctor probe --levers  # on the same hosts: does NCCL itself pass, and without which transport?",
    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV torchrun …  # which network and transports are in use; for one run",
)
remedy = (
    "scontrol update nodename=HOST state=drain reason=nccl-hang  # the host whose probe stands still; costs its GPUs",
    "export NCCL_IB_TIMEOUT=22 NCCL_IB_RETRY_CNT=7  # where the fabric loses packets for seconds; costs minutes until a dead peer is noticed",
)
_MATTERS = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_BUFFSIZE", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")


def check(job: Job) -> Iterable[Found]:
    """One finding a communicator on which all are level, something timed out, and the calls agree."""
    if standing.waits(job):
        return
    timeouts = job.events(WatchdogTimeout)
    for ident, told in sorted(standing.standings(job).items()):
        comm = told[0].communicator
        if standing.finished(comm) or parted(job, ident):
            continue
        level = next(
            (s for s in told if _stands(s, bool(timeouts)) and len(s.lanes) == comm.size), None
        )
        if level is not None:
            yield _found(job, level)


def _stands(told: Standing, timed_out: bool) -> bool:
    """Did every rank issue one call more than it completed, and has this lasted?"""
    lanes = list(told.lanes.values())
    if told.behind or not lanes[0].issued:
        return False
    if told.origin in (Origin.RECORDER, Origin.WATCHDOG):
        return timed_out and all(
            lane.completed is not None and lane.completed < lane.issued for lane in lanes
        )
    return False


def _found(job: Job, level: Standing) -> Found:
    comm = level.communicator
    lanes = level.lanes
    ordinal = min(lane.completed or 0 for lane in lanes.values()) + 1
    call = level.call(ordinal)
    ranks = places.shown_ranks(comm, lanes)
    suspects, why = _suspects(job)
    where = places.grouped(places.positions(job, ranks, {}))
    return Found(
        title=(
            f"All {comm.size} ranks entered {f'{call}, ' if call else ''}the {nth(ordinal)} collective of {comm.name}, and none finished it"
            + (f"; first suspect: rank {ranges(suspects)} ({why})" if suspects else "")
        ),
        evidence=tuple(
            dict.fromkeys(
                [
                    *(lane.line for lane in list(lanes.values())[:2] if lane.line is not None),
                    *(s.line for s in stuck.signs(job)[:2]),
                ]
            )
        ),
        confidence=Confidence.MEDIUM,
        ranks=suspects or ranks,
        hosts=places.hosts(job, comm, lanes),
        explanation=(
            f"By {standing.sources([level.origin])}, nobody is behind and all calls agree, so data is not getting through. "
            + (f"{why[:1].upper()}{why[1:]}. " if why else "")
            + _transports(job)
            + (f" Where the ranks stand: {where}." if where else "")
        ),
    )


def _suspects(job: Job) -> tuple[tuple[int, ...], str]:
    """Ranks that something singles out, and what: network errors, other settings, no answer to RAS."""
    errors = [e for e in job.events(CompletionError) if e.status != 5]
    if errors:
        return job.ranks_of(errors[:1]), f"its network reported status {errors[0].status}"
    for variable in _MATTERS:
        values: dict[str, list[EnvironmentSet]] = {}
        events = [e for e in job.events(EnvironmentSet) if e.variable == variable]
        for event in events:
            values.setdefault(event.value, []).append(event)
        setting = set(job.ranks_of(events))
        if values and (len(values) > 1 or len(setting) < len(job.processes)):
            rare = min(values.values(), key=len)
            return job.ranks_of(rare), f"{variable}={rare[0].value} is set there and not everywhere"
    for snapshot in job.events(RasSnapshot):
        for comm in snapshot.communicators:
            for missing in comm.missing:
                rank = job.global_rank(comm.id, missing.rank)
                return (rank if rank is not None else missing.rank,), "it does not answer RAS"
    return (), ""


def _transports(job: Job) -> str:
    kinds = sorted({e.transport for e in job.events(Edge)})
    return f"Transports in use: {', '.join(kinds)}." if kinds else ""


_TEXT = (
    "[rank{0}]:[E1130 03:56:21.531759876 ProcessGroupNCCL.cpp:689] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=20000) ran for 20080 "
    "milliseconds before timing out.\n"
    "[rank{0}]:[E1130 03:56:21.531919701 ProcessGroupNCCL.cpp:2303] [PG ID 0 PG GUID 0(default_pg) Rank {0}]  failure "
    "detected by watchdog at work sequence id: 4 PG status: last enqueued work: 4, last completed work: 3\n"
)
fires_on = {"watchdog lines of all ranks": _TEXT.format(0) + _TEXT.format(1)}
silent_on = {
    "a rank behind": Sample("2.28.9-nodes4-skip"),
    "a healthy job": Sample("2.28.9-slow-rank"),
}
