"""Two InfiniBand or RoCE ports cannot set up their connection.

The queue pair cannot go to "ready to receive": the GID index picks an address that the peer cannot reach (link-local,
wrong VLAN, RoCE v1 against v2), ports of different rails or subnets are not routed, MTUs or partition keys differ, or
ports of InfiniBand and RoCE are mixed. Error 110 means that no answer came to the address lookup.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import who
from nccldoctor.model.events.fabric import IncompatibleDevices, VerbFailed
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "NET03"
name = "roce-path-setup-failed"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "NET10", "CRASH01", "HANG04", "NET04")
confirm = (
    "show_gids  # on both hosts: the RoCE v2 row with the routable IPv4 address must be there, with the same index",
    "ib_write_bw -d mlx5_0 -x 3 PEER  # does this pair of ports talk at all? ping -I IFACE PEER for the route",
)
remedy = (
    "unset NCCL_IB_GID_INDEX  # NCCL 2.21 and later find it; before: export NCCL_IB_GID_INDEX=3; costs nothing",
    "export NCCL_IB_HCA==mlx5_0,mlx5_1  # only ports of one fabric and one kind, the same on all hosts; costs the ports left out",
    "export NCCL_CROSS_NIC=0  # where rails are not connected; costs nothing on rail-optimised fabrics, some bandwidth on others",
)


def check(job: Job) -> Iterable[Found]:
    """One finding for the failed calls, one for ports that do not fit together."""
    events = [e for e in job.events(VerbFailed) if e.call in ("ibv_modify_qp", "ibv_query_gid")]
    if events:
        first = events[0]
        code_ = f" ({first.number})" if first.number else ""
        detail = f", {first.detail[:160]}" if first.detail else ""
        yield told_by(
            job,
            events,
            f"{who(job, events)} cannot connect its queue pairs: {first.call}: {first.reason}{code_}{detail}",
            remedy=(confirm[1], remedy[2], *remedy[:2]) if "timed out" in first.reason else (),
        )
    mixed = job.events(IncompatibleDevices)
    if mixed:
        yield told_by(
            job,
            mixed,
            f"{who(job, mixed)}: ports that do not fit together: {mixed[0].message[:160]}",
            remedy=(
                "export NCCL_IB_HCA=mlx5_0,mlx5_1  # only ports of one kind, on every host; costs the ports left out",
                *confirm[:1],
            ),
        )


_H = "gpu-1:71:71 [0] "
fires_on = {
    "2.24+": _H
    + "misc/ibvwrap.cc:250 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.0.0.1, remote GID ::ffff:10.0.1.2\n",
    "2.3-2.23": _H
    + "misc/ibvwrap.cc:190 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument\n",
    "2.26+, mixed": _H
    + "transport/net_ib.cc:900 NCCL WARN NET/IB : Attempted to connect incompatible devices: mlx5_0:1/IB and mlx5_4:1/RoCE. Try selecting NICs of only one link type using NCCL_IB_HCA\n",
    "2.20-2.25, mixed": _H
    + "transport/net_ib.cc:900 NCCL WARN NET/IB : Can't connect net devices with different link_layer. i=0 remMeta.ndevs=1\n",
}
silent_on = {
    "memory, not the path": _H
    + "misc/ibvwrap.cc:190 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory errno 12\n",
}
