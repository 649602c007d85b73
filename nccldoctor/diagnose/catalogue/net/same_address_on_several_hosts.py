"""Several hosts give out the same address, so peers connect to the wrong machine or to themselves.

Container bridges have the same address on every host (172.17.0.1), and so have ports behind NAT. When the ranks come up
together all the same, the "hosts" are one machine under several names, which is only a note.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.settings import several_hosts, works
from nccldoctor.diagnose.words import lines, some
from nccldoctor.knowledge.interfaces import loopback
from nccldoctor.model.events.nccl import BootstrapInterface
from nccldoctor.model.events.trouble import ConnectFailed
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "NET09"
name = "same-address-on-several-hosts"
severity = Severity.ERROR
needs = (Evidence.NETWORK,)
explains = ("NET04", "INIT01")
confirm = (
    "for h in $HOSTS; do ssh $h 'hostname; ip -br addr'; done  # which address is on several hosts",
)
remedy = (
    "export NCCL_SOCKET_IFNAME=eth0  # an interface whose address differs on each host; costs nothing",
    "docker run --network host …  # Kubernetes: hostNetwork: true, or one routable address a pod; costs the container's network isolation",
)


def check(job: Job) -> Iterable[Found]:
    """One finding an address."""
    if not several_hosts(job):
        return
    hosts: dict[str, dict[str, BootstrapInterface]] = {}
    for event in job.events(BootstrapInterface):
        host = job.host_of(event)
        if host and not loopback(event.address):
            hosts.setdefault(event.address, {}).setdefault(host, event)
    for address, by_host in sorted(hosts.items()):
        if len(by_host) > 1:
            yield Found(
                title=f"{some(sorted(by_host))} all give out the address {address}",
                evidence=lines(by_host.values()),
                hosts=tuple(sorted(by_host)),
                confidence=Confidence.MEDIUM,
                severity=Severity.NOTE
                if works(job)
                else Severity.ERROR
                if job.events(ConnectFailed)
                else Severity.WARNING,
            )


_A = "gpu-1:71:71 [0] NCCL INFO "
_B = "gpu-2:81:81 [0] NCCL INFO "
fires_on = {
    "2.4-2.23": _A
    + "Bootstrap : Using [0]docker0:172.17.0.1<0>\n"
    + _B
    + "Bootstrap : Using [0]docker0:172.17.0.1<0>\n",
    "2.24+": _A
    + "Bootstrap: Using eth0:10.88.0.2<0>\n"
    + _B
    + "Bootstrap: Using eth0:10.88.0.2<0>\n",
}
silent_on = {
    "one address a host": _A
    + "Bootstrap: Using eth0:10.0.0.1<0>\n"
    + _B
    + "Bootstrap: Using eth0:10.0.0.2<0>\n",
    "loopback": _A
    + "Bootstrap: Using lo:127.0.0.1<0>\n"
    + _B
    + "Bootstrap: Using lo:127.0.0.1<0>\n",
}
