"""An InfiniBand or RoCE device cannot be used, or there is none although the job asks for one.

Without libibverbs, without /dev/infiniband in the container, without an active port, NCCL's own InfiniBand network has
no device. Where sockets are allowed NCCL falls back to them silently; where NCCL_NET=IB forbids that, set-up fails.
On a machine without InfiniBand all these lines are normal, and nothing is reported.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.settings import events_of, named, works
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.event import Event
from nccldoctor.model.events.fabric import DeviceUnusable, VerbFailed, VerbsMissing
from nccldoctor.model.events.nccl import NetDevices
from nccldoctor.model.events.trouble import NoNetwork
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "NET02"
name = "ib-device-unusable"
severity = Severity.ERROR
needs = (Evidence.NETWORK, Evidence.NCCL_LOG)
explains = ("BACKEND02", "BACKEND03", "INIT01", "INIT07", "CRASH01", "PERF01", "BACKEND06")
confirm = (
    "ls /dev/infiniband; ibv_devinfo | grep -E 'hca_id|state'  # in the container: devices there, PORT_ACTIVE",
)
remedy = (
    "docker run --device /dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1 …  # in Kubernetes: the RDMA device plugin's resource; costs nothing",
    "apt-get install -y libibverbs1 ibverbs-providers  # in the image; costs a rebuilt image",
    "sudo ip link set IFACE up; sudo systemctl restart opensm  # where the port is not active: RoCE interface up, InfiniBand subnet manager running; costs a short break of the fabric",
)


def check(job: Job) -> Iterable[Found]:
    """Devices that fail; then devices that the job asks for and that are not there."""
    broken: list[Event] = [*job.events(DeviceUnusable)]
    broken += [
        e for e in job.events(VerbFailed) if e.call in ("ibv_open_device", "ibv_query_device")
    ]
    if broken:
        devices = sorted({e.device for e in job.events(DeviceUnusable) if e.device})
        yield told_by(
            job,
            broken,
            f"{who(job, broken)} cannot use {', '.join(devices) or 'an InfiniBand device'}",
            severity=Severity.WARNING if works(job) else Severity.ERROR,
        )
        return
    yield from _absent(job)


def _absent(job: Job) -> Iterable[Found]:
    none = [e for e in job.events(NetDevices) if e.network == "IB" and "[0]" not in e.devices]
    missing: list[Event] = [*none, *job.events(VerbsMissing)]
    if not missing:
        return
    refused = [e for e in job.events(NoNetwork) if e.network in (None, "IB")]
    asked = [s for s in named(job, "NCCL_NET") if s.value.upper() == "IB"]
    asked += [s for s in named(job, "NCCL_IB_HCA") if not s.value.startswith("^")]
    others = [e for e in job.events(NetDevices) if e.network == "IB" and "[0]" in e.devices]
    if refused:
        yield told_by(
            job,
            refused,
            f"{who(job, missing)}: no InfiniBand device is usable, and NCCL may not fall back to sockets",
            evidence=lines([*refused[:2], *missing[:2]]),
            remedy=(
                "unset NCCL_NET  # where the machine has no InfiniBand: sockets are used then; costs nothing there",
                *remedy,
            ),
        )
    elif asked or others:
        without = [e for e in none if job.hosts_of([e])] or missing
        why = (
            f"{asked[0].variable}={asked[0].value} asks for it" if asked else "other ranks have it"
        )
        yield told_by(
            job,
            without,
            f"{who(job, without)}: no InfiniBand device is usable, although {why}",
            evidence=lines([*without[:2], *events_of(asked[:1]), *others[:1]]),
            confidence=Confidence.MEDIUM,
            severity=Severity.WARNING,
        )


_H = "gpu-1:71:71 [0] "
fires_on = {
    "2.3+": _H + "transport/net_ib.cc:300 NCCL WARN NET/IB : Unable to open device mlx5_0\n",
    "2.27+, forced": _H
    + "NCCL INFO NET/IB : No device found.\n"
    + _H
    + "plugin/net.cc:379 NCCL WARN Failed to initialize any NET plugin\n",
    "2.10-2.26, forced": _H
    + "NCCL INFO NET/IB : No device found.\n"
    + _H
    + "net.cc:100 NCCL WARN Error: network IB not found.\n",
    "asked for": _H
    + "NCCL INFO NCCL_IB_HCA set to mlx5\n"
    + _H
    + "NCCL INFO NET/IB : No device found.\n",
    "another host has it": _H
    + "NCCL INFO NET/IB : No device found.\n"
    + "gpu-2:81:81 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.2<0>\n",
}
silent_on = {
    "no InfiniBand, none asked for": _H
    + "NCCL INFO Failed to open libibverbs.so[.1]\n"
    + _H
    + "NCCL INFO NET/IB : No device found.\n"
    + _H
    + "NCCL INFO Using network Socket\n",
}
