"""NCCL's buffers are set so large that they take much GPU memory.

Each channel keeps buffers for each neighbour and protocol, on every communicator. The default of 4 MiB (Simple) fills
today's links; larger ones take memory from the model and rarely make anything faster.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.settings import library_version, named, number, unique
from nccldoctor.diagnose.words import lines, size, who
from nccldoctor.knowledge.buffers import BUFFERS, memory
from nccldoctor.knowledge.channels import most
from nccldoctor.model.events.nccl import ChannelCounts
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "BUF02"
name = "buffers-oversized"
severity = Severity.WARNING
needs = (Evidence.ENVIRONMENT,)
explains = ()
confirm = ("env | grep BUFFSIZE; cat /etc/nccl.conf ~/.nccl.conf  # who sets it",)
remedy = (
    "unset NCCL_BUFFSIZE NCCL_LL_BUFFSIZE NCCL_LL128_BUFFSIZE  # costs nothing unless a measurement with nccldoctor probe says otherwise",
)
TIMES = 4


def check(job: Job) -> Iterable[Found]:
    """One finding a variable, with the memory it takes on a rank."""
    for setting in unique(named(job, *BUFFERS)):
        value = number(setting) or 0
        if value < TIMES * BUFFERS[setting.variable]:
            continue
        counts = job.events(ChannelCounts)
        channels = max((c.collective for c in counts), default=0)
        limit = most(library_version(job))
        takes = memory(channels or limit, {setting.variable: value})
        base = memory(channels or limit, {})
        how_many = (
            f"{channels} channel{'s' * (channels != 1)}" if channels else f"up to {limit} channels"
        )
        events = [s.event for s in named(job, setting.variable) if s.value == setting.value]
        yield told_by(
            job,
            events,
            f"{who(job, events, 'The job')}: {setting.variable} of {size(value)} takes about {size(takes)} of GPU memory "
            f"for each communicator with {how_many} ({size(base)} by default)",
            evidence=lines([*events[:2], *counts[:1]]),
            confidence=Confidence.HIGH if channels else Confidence.MEDIUM,
            remedy=(
                f"unset {setting.variable}  # costs nothing unless a measurement with nccldoctor probe says otherwise",
            ),
        )


_H = "gpu-1:71:71 [0] NCCL INFO "
fires_on = {
    "2.12+": _H
    + "NCCL_BUFFSIZE set by environment to 16777216.\n"
    + _H
    + "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer\n",
    "2.7-2.16": _H
    + "NCCL_BUFFSIZE set by environment to 67108864.\n"
    + _H
    + "2 coll channels, 2 p2p channels, 2 p2p channels per peer\n",
    "LL": _H + "NCCL_LL_BUFFSIZE set by environment to 8388608.\n",
}
silent_on = {
    "the default": _H + "NCCL_BUFFSIZE set by environment to 4194304.\n",
    "twice": _H + "NCCL_BUFFSIZE set by environment to 8388608.\n",
}
