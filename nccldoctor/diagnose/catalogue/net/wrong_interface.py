"""Traffic between hosts goes over an interface that cannot carry it.

NCCL takes the first interface that is up, preferring ib*; container bridges, tunnels, loopback and management ports
look fit to it. Hosts then cannot reach each other, or only slowly. On a single host any interface is right, loopback
too: when ranks on loopback come up together, their "hosts" are one machine, and this is only a note.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.settings import several_hosts, works
from nccldoctor.diagnose.words import lines, who
from nccldoctor.knowledge.interfaces import link_local, loopback, unfit
from nccldoctor.model.events.nccl import BootstrapInterface
from nccldoctor.model.events.trouble import ConnectFailed
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "NET05"
name = "wrong-interface"
severity = Severity.ERROR
needs = (Evidence.NETWORK,)
explains = ("NET09", "NET04", "INIT01", "BACKEND02", "PERF01")
confirm = ("ip -br addr; ip route get PEER  # which interface leads to the other hosts",)
remedy = (
    "export NCCL_SOCKET_IFNAME=eth0  # the interface whose subnet all hosts share; costs nothing",
    "export NCCL_SOCKET_IFNAME=^docker,lo,virbr,veth  # or exclude what is unfit; costs nothing; GLOO_SOCKET_IFNAME needs a full name",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a kind of interface that is unfit, and one for interfaces that differ between hosts."""
    if not several_hosts(job):
        return
    events = job.events(BootstrapInterface)
    failed = not works(job) and bool(job.events(ConnectFailed))
    kinds: dict[tuple[str, str], list[BootstrapInterface]] = {}
    for event in events:
        what = unfit(event.interface) or ("link-local" if link_local(event.address) else None)
        if what:
            kinds.setdefault((event.interface, what), []).append(event)
    for (interface, what), same in sorted(kinds.items()):
        one_machine = works(job) and all(loopback(e.address) for e in same)
        yield told_by(
            job,
            same,
            f"{who(job, same)}: {interface} ({what}) carries traffic between hosts",
            confidence=Confidence.MEDIUM,
            severity=Severity.NOTE
            if one_machine
            else Severity.ERROR
            if failed
            else Severity.WARNING,
        )
    if not kinds and not works(job):
        yield from _mixed(job, events)


def _mixed(job: Job, events: list[BootstrapInterface]) -> Iterable[Found]:
    """Different names and different networks, and nothing comes up."""
    networks = {(e.interface, e.address.rpartition(".")[0].rpartition(".")[0]) for e in events}
    names = sorted({name for name, _ in networks})
    if len(names) > 1 and len({network for _, network in networks}) > 1:
        yield Found(
            title=f"Hosts use different interfaces in different networks: {', '.join(names)}",
            evidence=lines({e.interface: e for e in events}.values()),
            hosts=job.hosts_of(events),
            confidence=Confidence.LOW,
            severity=Severity.WARNING,
        )


_A = "gpu-1:71:71 [0] NCCL INFO "
_B = "gpu-2:81:81 [0] NCCL INFO "
fires_on = {
    "2.4-2.23": _A
    + "Bootstrap : Using [0]docker0:172.17.0.1<0>\n"
    + _B
    + "Bootstrap : Using [0]docker0:172.17.0.1<0>\n",
    "2.24+": _A
    + "Bootstrap: Using virbr0:192.168.122.1<0>\n"
    + _B
    + "Bootstrap: Using eth0:10.0.0.2<0>\n",
    "different networks": _A
    + "Bootstrap: Using eth1:10.1.0.1<0>\n"
    + _B
    + "Bootstrap: Using eth0:192.168.0.2<0>\n",
}
silent_on = {
    "one host": _A + "Bootstrap: Using lo:127.0.0.1<0>\n",
    "one network": _A
    + "Bootstrap: Using eth0:10.0.0.1<0>\n"
    + _B
    + "Bootstrap: Using eth0:10.0.0.2<0>\n",
}
