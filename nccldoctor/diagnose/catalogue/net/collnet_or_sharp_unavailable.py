"""In-network reduction (CollNet, SHARP) was wanted and does not come up; NCCL goes on without it.

Needed are the SHARP plugin, an aggregation manager in the fabric and enough hosts. Where NCCL_COLLNET_ENABLE was set
without these, it only makes set-up longer.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.settings import events_of, named
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.events.fabric import CollnetUnavailable
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "NET12"
name = "collnet-or-sharp-unavailable"
severity = Severity.NOTE
needs = (Evidence.NCCL_LOG,)
explains = ()
confirm = (
    "sharp_hello  # where the fabric should have SHARP: is the aggregation manager reachable?",
)
remedy = ("unset NCCL_COLLNET_ENABLE  # where the fabric has no SHARP; costs nothing",)


def check(job: Job) -> Iterable[Found]:
    """One finding."""
    events = job.events(CollnetUnavailable)
    if events:
        asked = named(job, "NCCL_COLLNET_ENABLE")
        yield told_by(
            job,
            events,
            f"{who(job, events)}: in-network reduction does not come up; NCCL goes on without it",
            evidence=lines([*events[:2], *events_of(asked[:1])]),
        )


_H = "gpu-1:71:71 [0] "
fires_on = {
    "2.6+": _H + "NCCL INFO Cannot initialize CollNet, using point-to-point network instead\n",
    "2.6+, asked for": _H
    + "NCCL INFO NCCL_COLLNET_ENABLE set by environment to 1.\n"
    + _H
    + "init.cc:700 NCCL WARN Cannot initialize CollNet, using point-to-point network instead\n",
}
silent_on = {
    "not asked for": _H
    + "NCCL INFO 24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer\n",
}
