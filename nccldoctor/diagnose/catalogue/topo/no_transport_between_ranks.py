"""Two ranks have no way to each other: peer-to-peer, shared memory and the network are all ruled out.

NCCL tries them in this order for each pair. Nothing is left when variables switch off what the machine could do, or
when ranks in separate containers take each other for neighbours, so that the network is not tried, and can share
neither memory nor GPUs.
Not a fault: one of the ways being off while another works.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.settings import named, on
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.events.platform import NoTransport
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "TOPO18"
name = "no-transport-between-ranks"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "INIT07", "NET10", "HANG04", "CRASH01")
confirm = (
    "env | grep -E 'NCCL_(P2P|SHM|IB|NET|HOSTID)'; nvidia-smi topo -p2p r; df -h /dev/shm; ip -br addr  # which of the three ways is switched off or missing",
)
remedy = (
    "unset NCCL_P2P_DISABLE NCCL_SHM_DISABLE NCCL_IB_DISABLE NCCL_NET NCCL_HOSTID  # costs nothing; then look which of them was needed, and why",
    "docker run --ipc=host …  # costs isolation between the containers; or a NCCL_HOSTID of its own for each container, which costs speed: they then use the network",
)

_SWITCHES = ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE")


def check(job: Job) -> Iterable[Found]:
    """One finding: the pairs, and the variables that switch ways off."""
    events = job.events(NoTransport)
    if events:
        pairs = ", ".join(sorted({f"{e.source} -> {e.target}" for e in events})[:6])
        off = [s for s in named(job, *_SWITCHES) if on(s)]
        shown = ", ".join(sorted({f"{s.variable}={s.value}" for s in off}))
        why = f"; {shown}" if off else ""
        yield told_by(
            job,
            events,
            f"{who(job, events)}: no transport between ranks {pairs}{why}",
            evidence=lines([*events[:3], *(s.event for s in off[:2])]),
        )


fires_on = {
    "2.3+": "gpu-1:71:71 [0] transport.cc:1 NCCL WARN No transport found for rank 0[1b000] -> rank 1[3d000]",
    "RCCL": "mi-1:71:71 [0] /src/transport.cc:1 NCCL WARN No transport found for rank 0[c1000] -> rank 1[c6000]",
}
silent_on = {
    "shared memory is left": (
        "gpu-1:71:71 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n"
        "gpu-1:71:71 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"
    ),
}
