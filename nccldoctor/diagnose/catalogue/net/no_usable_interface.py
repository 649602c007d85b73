"""NCCL or Gloo finds no interface to talk over.

NCCL_SOCKET_IFNAME (or GLOO_SOCKET_IFNAME, NCCL_OOB_NET_IFNAME) names none that is up, often because it was copied from
another machine; or the container has no network but loopback. NCCL matches by prefix, `=` asks for an exact name, `^`
excludes.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.settings import events_of, named_by
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.events.trouble import NoInterface
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "NET06"
name = "no-usable-interface"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT07", "INIT01", "INIT03", "CRASH01", "NET10", "HANG04")
confirm = ("ip -br addr; env | grep IFNAME  # which interfaces are up, and what is asked for",)
remedy = (
    "unset NCCL_SOCKET_IFNAME  # NCCL then chooses; or export NCCL_SOCKET_IFNAME=eth0 with a name that is there; costs nothing",
)


def check(job: Job) -> Iterable[Found]:
    """One finding, with the name that matches nothing where it is known."""
    events = job.events(NoInterface)
    if not events:
        return
    garbled = [e for e in events if e.where.startswith("with family")]
    if len(garbled) == len(events):
        yield _garbled(job, garbled)
        return
    asked = named_by(job, events, "NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME", "GLOO_SOCKET_IFNAME")
    where = {e.where for e in events} - {"Bootstrap", "NET/Socket", "NET/IB"}
    if asked:
        why = f"{asked[0].variable}={asked[0].value} matches none that is up"
    elif where:
        why = f"{', '.join(sorted(where))} is not there"
    else:
        why = "NCCL_SOCKET_IFNAME matches none, or there is only loopback"
    fix = (
        (f"unset {asked[0].variable}  # or name one that is there; costs nothing", confirm[0])
        if asked
        else remedy
    )
    yield told_by(
        job,
        events,
        f"{who(job, events)} cannot find a network interface: {why}",
        evidence=lines([*events[:3], *events_of(asked[:1])]),
        remedy=fix,
    )


def _garbled(job: Job, events: list[NoInterface]) -> Found:
    asked = named_by(job, events, "NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME")
    why = f"{asked[0].variable}={asked[0].value} matches none" if asked else "no interface matched"
    return told_by(
        job,
        events,
        f"{who(job, events)} got an empty address to connect to: {why} on some rank, or ranks run different NCCL versions",
        evidence=lines([*events[:3], *events_of(asked[:1])]),
        confidence=Confidence.MEDIUM,
        remedy=(
            "ip -br addr; echo $NCCL_SOCKET_IFNAME  # on each host: the name must be there and up",
            "python -c 'import torch; print(torch.cuda.nccl.version())'  # on each host: the same",
        ),
    )


_H = "gpu-1:71:71 [0] "
fires_on = {
    "2.3-2.29": _H
    + "NCCL INFO NCCL_SOCKET_IFNAME set by environment to ib9\n"
    + _H
    + "bootstrap.cc:48 NCCL WARN Bootstrap : no socket interface found\n",
    "2.30.7+": _H
    + "bootstrap.cc:126 (bootstrapNetInit) NCCL WARN Bootstrap : no socket interface found\n",
    "sockets": _H + "NCCL WARN NET/Socket : no interface found\n",
    "2.27, nothing is found and nothing said": _H
    + "NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth2\n"
    + _H
    + "misc/socket.cc:397 NCCL WARN ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)\n",
    "Gloo": "[rank0]: RuntimeError: [enforce fail at /gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find address for: eth9\n",
}
silent_on = {
    "found": _H
    + "NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0\n"
    + _H
    + "NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n",
}
