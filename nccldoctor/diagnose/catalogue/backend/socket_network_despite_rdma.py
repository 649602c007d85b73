"""Ranks on several hosts speak over TCP sockets although there is RDMA hardware, or a plugin was to drive it.

NCCL takes InfiniBand or RoCE when it can load libibverbs, open a device in /dev/infiniband and find an active port, and
EFA or a cloud's NIC when their plugin loads. Else it goes on with sockets without an error, at a tenth of the speed.
Not a fault: one host; sockets set on purpose (NCCL_IB_DISABLE=1, NCCL_NET=Socket: ENV06); no RDMA hardware, as far as the
evidence tells, which is said as a note.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.networks import SLOW, Use, is_rdma, rdma, rdma_nics, spans_hosts, used
from nccldoctor.diagnose.settings import Setting, named, on
from nccldoctor.diagnose.words import lines, some, who
from nccldoctor.model.event import Event
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "BACKEND02"
name = "socket-network-despite-rdma"
severity = Severity.ERROR
needs = (Evidence.NETWORK, Evidence.INFO_LOG)
explains = ("PERF01", "TOPO05")
confirm = (
    "ls /dev/infiniband; ibv_devinfo | grep -E 'hca_id|state'  # in the job's container: devices there, a port PORT_ACTIVE",
    "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET  # after the change the log must say: Using network IB (or the plugin's name)",
)
remedy = (
    "docker run --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1 --network=host …  # Kubernetes: the RDMA device plugin's resource; costs the container's network isolation",
    "apt-get install -y libibverbs1 ibverbs-providers  # in the image; AWS: aws-ofi-nccl and libfabric instead; costs a rebuilt image",
)

_EXPECTED = (
    "FI_PROVIDER",
    "NCCL_OFI_TUNER_TYPE",
    "NCCL_IB_HCA",
    "NCCL_NET_PLUGIN",
    "NCCL_FASTRAK_CTRL_DEV",
)


def check(job: Job) -> Iterable[Found]:
    """One finding: error where RDMA devices are known, warning where settings expect some, else a note."""
    uses = used(job)
    slow = [u for u in uses.values() if SLOW in u.networks]
    if not slow or not spans_hosts(job) or _on_purpose(job):
        return
    if rdma_use := [u for u in uses.values() if u.networks and is_rdma(u.networks[0])]:
        others = who(job, [u.event for u in rdma_use])
        names = some(sorted({n for u in rdma_use for n in u.networks}))
        yield _found(job, slow, [rdma_use[0].event], f"although {others} use {names}", None)
    elif proof := rdma(job):
        yield _found(job, slow, proof, "although NCCL found RDMA devices", None)
    elif nics := rdma_nics(job):
        proof_lines: list[Event] = []
        yield _found(job, slow, proof_lines, f"although the hosts have {some(nics)}", None)
    elif expected := _expected(job):
        names = some(sorted({f"{s.variable}={s.value}" for s in expected}))
        yield _found(
            job, slow, [expected[0].event], f"although {names} expects RDMA", Severity.WARNING
        )
    else:
        yield _found(
            job, slow, [], "; no RDMA hardware is known of here, which may be right", Severity.NOTE
        )


def _on_purpose(job: Job) -> bool:
    disabled = any(on(s) for s in named(job, "NCCL_IB_DISABLE"))
    return disabled or any(s.value.lower() == "socket" for s in named(job, "NCCL_NET"))


def _expected(job: Job) -> list[Setting]:
    return [
        s
        for s in named(job, *_EXPECTED)
        if s.value.lower() not in ("", "none", "tcp", "sockets", "socket")
    ]


def _found(
    job: Job, slow: list[Use], proof: list[Event], why: str, severity: Severity | None
) -> Found:
    events = [u.event for u in slow]
    gap = "" if why.startswith(";") else ", "
    return told_by(
        job,
        events,
        f"{who(job, events)}: TCP sockets carry the traffic between hosts{gap}{why}",
        evidence=lines([*events[:2], *proof[:2]]),
        confidence=Confidence.HIGH if severity is None else Confidence.MEDIUM,
        severity=severity,
    )


_TWO = (
    "gpu-{h}:7{h}:7{h} [0] NCCL INFO {ib}\n"
    "gpu-{h}:7{h}:7{h} [0] NCCL INFO Using network {net}\n"
    "gpu-{h}:7{h}:7{h} [0] NCCL INFO ncclCommInitRank comm 0x{h} rank {r} nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xaa - Init COMPLETE\n"
)
_HCA = "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>"
_NONE = "NET/IB : No device found."


def _job(first: tuple[str, str], second: tuple[str, str]) -> str:
    return _TWO.format(h=1, r=0, ib=first[0], net=first[1]) + _TWO.format(
        h=2, r=1, ib=second[0], net=second[1]
    )


fires_on = {
    "2.21+, HCA listed": _job((_HCA, "Socket"), (_HCA, "Socket")),
    "other ranks use IB": _job((_HCA, "IB"), (_NONE, "Socket")),
    "EFA expected": "gpu-1:71:71 [0] NCCL INFO NCCL_NET_PLUGIN set by environment to ofi\n"
    + _job((_NONE, "Socket"), (_NONE, "Socket")),
    "2.5-2.15": _job((_HCA, "Socket"), (_HCA, "Socket"))
    .replace("ncclCommInitRank ", "")
    .replace(" nvmlDev 0", "")
    .replace(" commId 0xaa", ""),
    "RCCL": _job((_HCA, "Socket"), (_HCA, "Socket")).replace(
        " - Init", " localSize 224 used 90112 bytes on core 12 - Init"
    ),
}
silent_on = {
    "IB in use": _job((_HCA, "IB"), (_HCA, "IB")),
    "set on purpose": "gpu-1:71:71 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
    + _job((_NONE, "Socket"), (_NONE, "Socket")),
    "no RDMA known": _job((_NONE, "Socket"), (_NONE, "Socket")),
    "one host": _job((_HCA, "Socket"), (_HCA, "Socket")).replace("gpu-2", "gpu-1"),
}
