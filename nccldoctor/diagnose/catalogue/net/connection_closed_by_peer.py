"""A connection ended because the other side went away.

This is what the survivors print; the cause is on the peer: it crashed, was killed, hit an error of its own, or its host
went down. It heads a report only when nothing else is known. The ranks that say nothing are the ones to look at: a
process that is killed leaves no last line. Closed connections after a run that finished are not a fault, and after a
time-out of PyTorch's watchdog they follow from that: whoever it ends closes its connections.
"""

from collections.abc import Iterable, Sequence

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.peers import host_of_address, hostname
from nccldoctor.diagnose.words import lines, some, who, who_ranks
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import CommGone
from nccldoctor.model.events.torch import GlooError, ProcessEnded, WatchdogTimeout
from nccldoctor.model.events.trouble import PeerClosed
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "NET10"
name = "connection-closed-by-peer"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("HANG04",)
look_first = True
confirm = (
    "tail -50 LOG-AND-STDERR-OF-THE-PEER  # its last words are the cause",
    "dmesg -T | grep -iE 'killed process|xid|segfault'  # on the peer's host",
)
remedy = (
    "nccldoctor run train.py  # keeps each rank's end: exit code, signal, last lines; costs less than the noise between runs",
)


def check(job: Job) -> Iterable[Found]:
    """One finding; it names the silent ranks where some are, else those that complain."""
    closed: list[Event] = [*job.events(PeerClosed)]
    closed += [e for e in job.events(GlooError) if e.kind == "peer-closed"]
    events = [e for e in closed if not _after_the_end(job, e)]
    if not events:
        return
    complaining = set(job.ranks_of(closed))
    silent = _fallen_behind(job, complaining)
    peers = sorted({p for e in events if (p := getattr(e, "peer", None))})
    host = next((h for p in peers if (h := host_of_address(job, p))), None)
    if silent:
        hosts = job.hosts_of_ranks(silent)
        title = (
            f"{who_ranks(silent, hosts)} went away: {who(job, events).lower()} lost the connection"
        )
        ranks: Sequence[int] = silent
    else:
        hosts = tuple(sorted({*job.hosts_of(events), *((host,) if host else ())}))
        named = f" by {some(sorted({h for p in peers if (h := hostname(p))}))}" if peers else ""
        title = f"{who(job, events)}: connection closed{named}; that process ended first"
        ranks = job.ranks_of(events)
    yield Found(
        title=title,
        evidence=lines(events),
        ranks=tuple(ranks),
        hosts=hosts,
        confidence=Confidence.MEDIUM if silent else Confidence.LOW,
        severity=Severity.NOTE if _ended_well(job) else Severity.ERROR,
        consequence=_has_own_error(job) or (not silent and bool(job.events(WatchdogTimeout))),
    )


def _after_the_end(job: Job, event: Event) -> bool:
    """The process had already begun to take its communicators down in good order."""
    process = job.process_of(event)
    return process is not None and any(
        e.how == "Destroy" and job.process_of(e) == process and _before(e, event)
        for e in job.events(CommGone)
    )


def _ended_well(job: Job) -> bool:
    """Every end of a process that is told of was a good one."""
    ended = job.events(ProcessEnded)
    return bool(ended) and all(e.exit_code == 0 for e in ended)


def _before(one: Event, other: Event) -> bool:
    return one.line.file == other.line.file and one.line.number < other.line.number


def _fallen_behind(job: Job, complaining: set[int]) -> tuple[int, ...]:
    """Ranks that complain of nothing and have issued the fewest calls of some communicator."""
    lanes = apart(job.lanes, lambda lane: (lane.communicator, lane.origin))
    behind: set[int] = set()
    for (communicator, _), group in lanes.items():
        least = min(lane.issued for lane in group)
        if least < max(lane.issued for lane in group):
            last = [lane.rank for lane in group if lane.issued == least]
            ranks = {r for rank in last if (r := job.global_rank(communicator, rank)) is not None}
            behind |= ranks - complaining
    return tuple(sorted(behind)) if complaining else ()


def _has_own_error(job: Job) -> bool:
    """An error of another kind is in the evidence: the closed connection follows from it."""
    return any(
        type(e).__name__
        in (
            "CudaFailure",
            "CompletionError",
            "SharedMemoryFailed",
            "AllocationFailed",
            "DuplicateGpu",
            "CudaError",
            "FingerprintMismatch",
            "MessageTruncated",
            "VersionMismatch",
        )
        for e in job.all_events()
    )


_H = "gpu-1:71:75 [0] "
fires_on = {
    "2.16+": _H
    + "misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer gpu-2<45474>\n"
    + _H
    + "NCCL INFO misc/socket.cc:752 -> 6\n",
    "2.10-2.15": _H
    + "include/socket.h:409 NCCL WARN Net : Connection closed by remote peer 10.0.0.2<40822>\n",
    "2.3-2.9": _H + "include/socket.h:409 NCCL WARN Net : Connection closed by remote peer\n",
    "2.29+": _H
    + "misc/socket.cc:60 NCCL WARN ncclOsSocketProgressOpt: Call to recv from 10.0.0.2<40822> failed : Connection reset by peer\n",
    "Gloo": "[rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.2]:54178.\n",
}
silent_on = {
    "after the end": _H
    + "NCCL INFO comm 0x5 rank 0 nranks 2 cudaDev 0 busId 60 - Destroy COMPLETE\n"
    + _H
    + "misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer gpu-2<45474>\n",
    "a service thread at the end": _H
    + "NCCL INFO [Service thread] Connection closed by localRank 0\n",
}
