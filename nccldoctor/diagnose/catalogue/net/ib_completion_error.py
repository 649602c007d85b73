"""A transfer over InfiniBand, RoCE or libfabric ended with an error.

The status names which side failed and how. When one connection breaks, all other transfers on it are flushed (status
5), so the first error that is no flush, by time, is the origin; the rank that prints it is near the fault and is not
always its cause: status 12 mostly means that the *peer* or the way to it is gone.
"""

from collections.abc import Iterable, Sequence

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.peers import host_of_address, hostname
from nccldoctor.diagnose.words import lines, who
from nccldoctor.knowledge.ib_status import FLUSH, LOCAL_PROTECTION, VENDOR, status
from nccldoctor.model.events.fabric import LibfabricFailed
from nccldoctor.model.events.trouble import CompletionError
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "NET01"
name = "ib-completion-error"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("NET10", "HANG04", "HANG01", "HANG02", "CRASH01", "CRASH03", "HANG05", "NET04")
look_first = True
confirm = (
    "for p in /sys/class/infiniband/*/ports/*/; do grep -H . $p/state $p/counters/link_downed $p/counters/symbol_error; done  # on both hosts",
    "dmesg -T | grep -iE 'mlx5|xid|pcie' | tail -50  # on both hosts, and above all on the peer: did it die first?",
)
remedy = (
    "export NCCL_IB_TIMEOUT=22 NCCL_IB_RETRY_CNT=7  # where the fabric drops packets for seconds; costs minutes until a dead peer is noticed",
    "scontrol update nodename=HOST state=drain reason=ib-errors  # the host whose counters grow, until cable or port is replaced; costs its GPUs",
)


_LIBFABRIC = (
    "dmesg -T | tail -100  # on the peer: did its process or its GPU die first?",
    "fi_info -p efa; fi_pingpong -p efa PEER  # both ways, between the two hosts (-p cxi on Slingshot)",
    "aws ec2 authorize-security-group-ingress --group-id SG --protocol -1 --source-group SG  # EFA: the group must allow all traffic to and from itself; costs nothing",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a status, the earliest first; flushes only when there is nothing else; one for libfabric."""
    failed = job.events(LibfabricFailed)
    if failed:
        yield told_by(
            job,
            failed,
            f"{who(job, failed)}: a transfer over libfabric failed: {failed[0].reason}",
            confidence=Confidence.MEDIUM,
            remedy=_LIBFABRIC,
        )
    events = job.events(CompletionError)
    real = [e for e in events if e.status != FLUSH]
    for number in dict.fromkeys(e.status for e in _by_time(real or events)):
        same = _by_time([e for e in events if e.status == number])
        yield _found(job, number, same)


def _by_time(events: Sequence[CompletionError]) -> list[CompletionError]:
    timed = [e for e in events if e.speaker.time is not None]
    if len(timed) < len(events):
        return list(events)
    return sorted(events, key=lambda e: (str(e.speaker.time), e.line.file, e.line.number))


def _found(job: Job, number: int, events: Sequence[CompletionError]) -> Found:
    first = events[0]
    known = status(number)
    peer = f" to {first.peer}" if first.peer else ""
    host = host_of_address(job, first.peer)
    peer += f" ({host})" if host and host != hostname(first.peer) else ""
    through = f" through {first.hca}" if first.hca else ""
    vendor = VENDOR.get(first.vendor_error or -1)
    vendor = f", vendor error {first.vendor_error}: {vendor}" if vendor else ""
    hosts = set(job.hosts_of([first])) | ({host} if host else set())
    also = (
        ""
        if number != LOCAL_PROTECTION
        else " IOMMU or ACS on the way of GPUDirect is the likely cause."
    )
    return Found(
        title=f"{who(job, [first])}: transfer{peer}{through} failed with status {number} ({known.name}{vendor}): {known.meaning}",
        explanation=f"{__doc__.strip()}{also}",
        evidence=lines(events),
        ranks=job.ranks_of([first]),
        hosts=tuple(sorted(hosts)),
        confidence=Confidence.MEDIUM if number == FLUSH else Confidence.HIGH,
        remedy=known.remedy or remedy,
    )


_H = "gpu-1:71:75 [0] "
fires_on = {
    "aws-ofi-nccl": _H
    + "ofi_process_cq:1 NCCL WARN NET/OFI Request 0x7f14cc5b60c0 completed with error. RC: 113. Error: 2 (UNDELIVERABLE). Completed length: 0\n",
    "2.3-2.9": _H
    + "transport/net_ib.cc:800 NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 32478, vendor err 129\n",
    "2.20-2.21": _H
    + "transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<40822> with status=12 opcode=129 len=0 vendor err 129 (Recv)\n",
    "2.28.7-2.28.9": "[2026-11-30 04:00:00] "
    + _H
    + "transport/net_ib/p2p.cc:522 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<40822> with status=IBV_WC_LOC_PROT_ERR(4) opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=81 req_type=Send hca mlx5_0\n",
    "2.30+": "[2026-11-30 04:00:00] "
    + _H
    + "transport/net_ib/p2p.cc:522 (ncclIbTest) NCCL WARN NET/IB: Got completion from peer 10.0.0.2<40822> with status=IBV_WC_WR_FLUSH_ERR(5) opcode=IBV_WC_SEND(0) vendor_err=249 Send hca mlx5_0\n",
}
silent_on = {
    "the word alone": _H + "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\n",
}
