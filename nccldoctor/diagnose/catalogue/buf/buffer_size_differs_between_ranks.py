"""Ranks of one job cut their data into pieces of different sizes.

NCCL_BUFFSIZE, NCCL_LL_BUFFSIZE and NCCL_LL128_BUFFSIZE must be the same on all ranks of a communicator, for sender and
receiver count in steps of them. When NCCL complains of sizes and no rank has such a variable, ranks have called
collectives of different sizes (COLL02).
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.settings import Setting, named
from nccldoctor.diagnose.words import lines, who
from nccldoctor.knowledge.buffers import BUFFERS
from nccldoctor.model.events.fabric import SizesDisagree
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "BUF05"
name = "buffer-size-differs-between-ranks"
severity = Severity.ERROR
needs = (Evidence.ENVIRONMENT, Evidence.NCCL_LOG)
explains = ("NET01", "NET10", "HANG02", "HANG04")
confirm = (
    "for h in $HOSTS; do ssh $h 'hostname; env | grep BUFFSIZE; cat /etc/nccl.conf ~/.nccl.conf'; done  # which host sets what",
)
remedy = (
    "unset NCCL_BUFFSIZE NCCL_LL_BUFFSIZE NCCL_LL128_BUFFSIZE  # on every rank, in the same script that starts them; costs nothing",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a variable that differs; else one for sizes that NCCL's network complains of where some rank has such a variable."""
    complaints = job.events(SizesDisagree)
    found = False
    for variable in BUFFERS:
        of_process: dict[int, Setting] = {}
        for setting in named(job, variable):
            if (process := job.process_of(setting.event)) is not None:
                of_process.setdefault(process.id, setting)
        shown = {s.value: s for s in of_process.values()}
        if len(shown) > 1:
            found = True
            events = [s.event for s in of_process.values()]
            yield told_by(
                job,
                events,
                f"{who(job, events)}: {variable} differs ({', '.join(sorted(shown))})",
                evidence=lines([*(s.event for s in shown.values()), *complaints[:1]]),
            )
    if complaints and not found and named(job, *BUFFERS):
        yield told_by(
            job,
            complaints,
            f"{who(job, complaints)}: {complaints[0].message}: buffers or collectives differ in size between ranks",
            confidence=Confidence.LOW,
        )


_A = "gpu-1:71:71 [0] "
_B = "gpu-2:81:81 [0] "
fires_on = {
    "2.12+": _A
    + "NCCL INFO NCCL_BUFFSIZE set by environment to 8388608.\n"
    + _B
    + "NCCL INFO NCCL_BUFFSIZE set by environment to 4194304.\n",
    "sockets, set on one rank": _B
    + "NCCL INFO NCCL_BUFFSIZE set by environment to 65536.\n"
    + _A
    + "transport/net_socket.cc:520 NCCL WARN NET/Socket : peer 10.0.0.2<40822> message truncated : receiving 65536 bytes instead of 32768. If you believe your socket network is in a healthy state, there may be a mismatch in collective sizes\n",
}
silent_on = {
    "no variable, and calls of two sizes": _A
    + "transport/net_socket.cc:520 NCCL WARN NET/Socket : peer 10.0.0.2<40822> message truncated : receiving 65536 bytes instead of 32768. If you believe your socket network is in a healthy state, there may be a mismatch in collective sizes\n",
    "the same": _A
    + "NCCL INFO NCCL_BUFFSIZE set by environment to 8388608.\n"
    + _B
    + "NCCL INFO NCCL_BUFFSIZE set by environment to 8388608.\n",
}
