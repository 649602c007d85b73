"""Ranks of one communicator use different networks.

Both ends of a connection must speak the same transport: a rank on sockets cannot answer one on InfiniBand. NCCL does not
compare the choice; the connection fails or hangs at the first use between hosts. The image, the plugin, the devices in
the container or the environment differ from host to host.
Not a fault: different communicators with different networks; a process that names several, one a communicator.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.networks import SLOW, Use, family, used, why_not
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Communicator, Evidence, Job

code = "BACKEND03"
name = "network-differs-between-ranks"
severity = Severity.ERROR
needs = (Evidence.NETWORK, Evidence.INFO_LOG)
explains = ("BACKEND02", "INIT01", "NET10", "HANG02", "HANG04", "CRASH01")
look_first = True
confirm = (
    "for h in $HOSTS; do ssh $h 'hostname; ls /dev/infiniband /opt/*/lib*/libnccl-net* 2>&1; env | grep -E \"^(NCCL|FI|UCX|LD_LIBRARY)\" | sort'; done  # what the odd host lacks",
)
remedy = (
    "docker run --device=/dev/infiniband IMAGE@sha256:DIGEST …  # the same image by digest and the same devices on every host; costs a restart of the job",
    "scontrol update nodename=HOST state=drain reason=network  # run without the odd host until it is mended; costs its GPUs",
)


def check(job: Job) -> Iterable[Found]:
    """One finding: the largest communicator whose members have no network in common; the smaller party is named."""
    uses = used(job)
    for comm in job.communicators:
        members = [
            uses[m.process] for m in comm.members if m.process is not None and m.process in uses
        ]
        common = (
            set.intersection(*({family(n) for n in u.networks} for u in members))
            if members
            else {""}
        )
        if not common:
            yield _found(job, comm, members)
            return


def _found(job: Job, comm: Communicator, members: list[Use]) -> Found:
    parties = apart(members, lambda use: " and ".join(use.networks))
    ordered = sorted(parties.items(), key=lambda item: (len(item[1]), item[0]))
    (odd, few), (_, most) = ordered[0], ordered[-1]
    rest = "; ".join(
        f"{who(job, [u.event for u in group])} use {network}" for network, group in ordered[1:]
    )
    equal = len(few) == len(most)
    named = [u.event for u in (members if equal else few)]
    verb = "uses" if len(few) == 1 else "use"
    reasons = why_not(job, {u.process for u in few}) if odd == SLOW else []
    why = f" ({reasons[0][0]})" if reasons else ""
    return told_by(
        job,
        named,
        f"{who(job, [u.event for u in few])} {verb} {odd}{why} in {comm.name}, but {rest[0].lower()}{rest[1:]}",
        evidence=lines(
            [few[0].event, *(group[0].event for _, group in ordered[1:]), *(e for _, e in reasons)]
        ),
        confidence=Confidence.HIGH,
    )


_RANK = (
    "gpu-{0}:7{0}:7{0} [0] NCCL INFO Using network {1}\n"
    "gpu-{0}:7{0}:7{0} [0] NCCL INFO ncclCommInitRank comm 0x{0} rank {2} nranks 3 cudaDev 0 nvmlDev 0 busId 60 commId {3} - Init START\n"
)


def _three(*networks: str) -> str:
    return "".join(_RANK.format(i + 1, n, i, "0xaa") for i, n in enumerate(networks))


fires_on = {
    "2.21+": _three("IB", "Socket", "IB"),
    "plugin on some hosts": _three("AWS Libfabric", "AWS Libfabric", "Socket"),
    "2.16-2.20": _three("IB", "Socket", "IB").replace("ncclCommInitRank ", ""),
    "RCCL": _three("IB", "Socket", "IB").replace("busId 60", "busId c1000"),
}
silent_on = {
    "all the same": _three("IB", "IB", "IB"),
    "HPC-X's names for InfiniBand": _three("IBext", "IBext_v8", "IB"),
    "two jobs": _RANK.format(1, "IB", 0, "0xaa") + _RANK.format(2, "Socket", 0, "0xbb"),
}
