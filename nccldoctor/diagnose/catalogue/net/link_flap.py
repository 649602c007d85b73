"""A port of the fabric went down and came back, or its device failed.

NCCL prints what the driver tells it: "port error" then "port active" is a flap, from a cable, a transceiver or a switch.
Transfers ride over it when the retries last long enough (NCCL_IB_TIMEOUT); else NET01 follows. A fatal event means that
the device itself has to be reset. A changed GID table (RoCE) comes from an address or VLAN that was changed meanwhile.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.events.fabric import PortEvent
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "NET11"
name = "link-flap"
severity = Severity.WARNING
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("NET01", "NET10", "HANG04")
look_first = True
confirm = (
    "mlxlink -d mlx5_0 -m -c; dmesg -T | grep -i mlx5 | tail -50  # cable and error counters of that port, twice a minute apart: do they grow?",
)
remedy = (
    "export NCCL_IB_TIMEOUT=22 NCCL_IB_RETRY_CNT=7  # rides over about two minutes; costs that a dead peer is noticed as much later",
    "sudo mlxlink -d mlx5_0 -a TG  # trains the port anew on a drained host; where it flaps again: swap cable, then transceiver; costs a visit to the rack",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a device."""
    for device, events in apart(job.events(PortEvent), lambda e: e.device or "").items():
        fatal = [e for e in events if e.fatal or "catastrophic" in e.event]
        down = [e for e in events if "port error" in e.event]
        told = ", ".join(dict.fromkeys(e.event for e in events))
        yield told_by(
            job,
            events,
            f"{who(job, events)}: {device or 'a device'} reports {told}",
            evidence=lines(fatal or down or events),
            severity=Severity.ERROR if fatal else Severity.WARNING if down else Severity.NOTE,
        )


_H = "gpu-1:71:75 [0] "
fires_on = {
    "2.20-2.22": _H
    + "transport/net_ib.cc:90 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error\n",
    "2.23-2.28.3": _H
    + "transport/net_ib.cc:90 NCCL WARN NET/IB : mlx5_0:1 Got async error event: port error\n",
    "2.28.7+": _H
    + "transport/net_ib/init.cc:90 NCCL WARN NET/IB : mlx5_0:1 Got non-fatal async event: port error(10)\n",
    "fatal": _H
    + "transport/net_ib.cc:90 NCCL WARN NET/IB : mlx5_0:1 async fatal event: local catastrophic error\n",
}
silent_on = {
    "nothing happened": _H + "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\n",
}
