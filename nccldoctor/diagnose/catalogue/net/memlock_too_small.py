"""The limit of locked memory does not let NCCL register its buffers.

RDMA pins memory; queue pairs, completion queues and buffers count against `ulimit -l`, which containers and services
set to 64 KiB. The verbs call then fails with "Cannot allocate memory" while there is plenty. Real lack of host memory
shows other signs too (BUF07), and an out-of-memory killer in the same evidence is taken for the cause instead.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.host_memory import locked_limits, locked_need
from nccldoctor.diagnose.words import lines, size, who
from nccldoctor.model.events.fabric import VerbFailed
from nccldoctor.model.events.machine import OomKilled
from nccldoctor.model.events.trouble import AllocationFailed
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "NET08"
name = "memlock-too-small"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "NET10", "CRASH01", "HANG04", "BUF06")
confirm = (
    "ulimit -l; grep 'locked memory' /proc/PID/limits  # in the job itself: must say unlimited",
)
remedy = (
    "docker run --ulimit memlock=-1 --cap-add=IPC_LOCK …  # in a systemd unit: LimitMEMLOCK=infinity; costs the protection against a process that pins all memory",
    "echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/rdma.conf  # new logins only; Slurm: PropagateResourceLimitsExcept=MEMLOCK; costs the same",
)
_CALLS = ("ibv_reg_mr", "ibv_create_cq", "ibv_create_qp", "ibv_alloc_pd", "ibv_create_srq")


def check(job: Job) -> Iterable[Found]:
    """One finding; none when host memory itself ran out."""
    events = [
        e
        for e in job.events(VerbFailed)
        if e.call.startswith(_CALLS) and (e.number == 12 or _no_memory(e.reason) or not e.reason)
    ]
    if not events or job.events(OomKilled):
        return
    if any(e.memory == "host" for e in job.events(AllocationFailed)):
        return
    told = any(e.reason for e in events)
    limits = locked_limits(job, job.hosts_of(events))
    least = limits[0].limit_bytes if limits else None
    if limits and least is None:
        why = "though nothing limits locked memory here: the device's own tables are full"
    else:
        why = "the limit of locked memory is too small" + _measured(job, least)
    yield told_by(
        job,
        events,
        f"{who(job, events)}: {events[0].call} finds no memory to lock: {why}"
        if told
        else f"{who(job, events)}: {events[0].call} fails without a reason: mostly {why}",
        evidence=lines([*events[:3], *limits[:1]]),
        confidence=Confidence.HIGH
        if least is not None
        else Confidence.MEDIUM
        if told
        else Confidence.LOW,
        remedy=_UNLIMITED if limits and least is None else (),
    )


def _measured(job: Job, least: int | None) -> str:
    """The limit that nccldoctor saved, and what the connections need; nothing where it was not saved."""
    if least is None:
        return ""
    need = max((locked_need(job, host) for host in job.hosts_of(job.events(VerbFailed))), default=0)
    needs = f", and the connections of one rank need about {size(need)}" if need else ""
    return f" ({size(least)}{needs})"


_UNLIMITED = (
    "ibv_devinfo -v | grep -E 'max_(mr|qp|cq):'  # the device's limits; other jobs on this host share them",
    "unset NCCL_IB_QPS_PER_CONNECTION NCCL_MIN_NCHANNELS  # fewer queue pairs and buffers; costs bandwidth only where they were measured to help",
)


def _no_memory(reason: str) -> bool:
    return "allocate memory" in reason or reason.endswith("-12")


_H = "gpu-1:71:71 [0] "
fires_on = {
    "2.3-2.23": _H
    + "misc/ibvwrap.cc:190 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory\n",
    "2.24+": _H
    + "misc/ibvwrap.cc:190 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory errno 12\n",
    "a provider's own number": _H
    + "misc/ibvwrap.cc:190 NCCL WARN Call to ibv_create_qp failed with error Unknown error -12\n",
    "2.24+, number first": _H
    + "misc/ibvwrap.cc:190 NCCL WARN Call to ibv_create_qp failed with 12 Cannot allocate memory\n",
}
silent_on = {
    "no peer memory": _H
    + "misc/ibvwrap.cc:190 NCCL WARN Call to ibv_reg_mr failed with error Bad address\n",
    "the host has no memory": _H
    + "misc/ibvwrap.cc:190 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory\n"
    + _H
    + "include/alloc.h:40 NCCL WARN Failed to malloc 1048576 bytes\n",
}
