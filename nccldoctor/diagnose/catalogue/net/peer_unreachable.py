"""A process cannot connect to another: refused, no route, timed out.

"No route" and "unreachable" mean the wrong interface or a firewall; "refused" that nothing listens there any more,
mostly because the peer already ended, which is then the cause; "timed out" a firewall that drops, or a dead host.
NCCL's ports are picked by the kernel (/proc/sys/net/ipv4/ip_local_port_range), so a firewall must leave those open.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.peers import host_of_address, hostname
from nccldoctor.diagnose.words import lines, some, who
from nccldoctor.knowledge.interfaces import loopback
from nccldoctor.model.events.nccl import BootstrapInterface, CommComplete
from nccldoctor.model.events.torch import GlooError, ProcessEnded
from nccldoctor.model.events.trouble import ConnectFailed, ConnectRetried
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "NET04"
name = "peer-unreachable"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "CRASH01", "NET10", "HANG04", "HANG02")
confirm = (
    "ping -c3 -I eth0 PEER; nc -zv PEER PORT  # is there a route, and does a firewall drop it? 'refused' means that the peer's process is gone",
    "cat /proc/sys/net/ipv4/ip_local_port_range  # these ports must be open between the hosts",
)
remedy = (
    "export NCCL_SOCKET_IFNAME=eth0  # the interface whose subnet all hosts share: ip -br addr; costs nothing",
    "sudo iptables -I INPUT -s 10.0.0.0/16 -j ACCEPT  # on each host, the subnet of the cluster; costs the firewall between these hosts",
)
_MANY_TRIES = 3


def check(job: Job) -> Iterable[Found]:
    """One finding a reason, with the addresses that did not answer."""
    events = job.events(ConnectFailed)
    if not events:
        yield from _waiting(job)
        yield from _gloo(job)
    for reason, same in apart(events, lambda e: e.reason).items():
        addresses = sorted({h for e in same if (h := hostname(e.peer))})
        hosts = {host for e in same if (host := host_of_address(job, e.peer))}
        refused = "refused" in reason.lower()
        yield Found(
            title=f"{who(job, same)} cannot reach {some(addresses)}: {reason}",
            evidence=lines(same),
            ranks=job.ranks_of(same),
            hosts=tuple(sorted(hosts | set(job.hosts_of(same)))),
            confidence=Confidence.MEDIUM if refused else Confidence.HIGH,
            consequence=refused and _somebody_died(job),
        )


def _gloo(job: Job) -> Iterable[Found]:
    """Gloo's mesh of all ranks does not come together; over loopback that is the host's own name (NET13)."""
    failed = [e for e in job.events(GlooError) if e.kind == "connect"]
    if not failed or any((e.peer or "").startswith("[127.") for e in failed):
        return
    named = next((e for e in failed if e.peer), failed[0])
    yield Found(
        title=f"{who(job, failed)} cannot connect to other ranks over Gloo: {named.message}",
        evidence=lines(failed),
        ranks=job.ranks_of(failed),
        hosts=job.hosts_of(failed),
        confidence=Confidence.MEDIUM,
        remedy=(
            "export GLOO_SOCKET_IFNAME=eth0  # the full name of the interface that all hosts share: ip -br addr",
            "getent hosts $(hostname)  # on each host: must print its routable address, not 127.0.1.1",
            *remedy[1:],
        ),
    )


def _waiting(job: Job) -> Iterable[Found]:
    """Ranks that only try again and again, and whose communicator never comes up."""
    done = {p.id for e in job.events(CommComplete) if (p := job.process_of(e))}
    tried = [e for e in job.events(ConnectRetried) if (p := job.process_of(e)) and p.id not in done]
    if len(tried) < _MANY_TRIES:
        return
    addresses = sorted({h for e in tried if e.peer and (h := hostname(e.peer))})
    whom = some(addresses) if addresses else "an address that the log does not name"
    own = [e for e in job.events(BootstrapInterface) if loopback(e.address)]
    by = f" over {own[0].interface}, which no other host can be reached over" if own else ""
    yield told_by(
        job,
        tried,
        f"{who(job, tried)} keeps trying to reach {whom}{by}: {tried[-1].reason}",
        evidence=lines([*own[:1], *tried]),
        confidence=Confidence.MEDIUM,
    )


def _somebody_died(job: Job) -> bool:
    """Nothing listens any more where a process has ended."""
    return any(e.exit_code != 0 for e in job.events(ProcessEnded))


_H = "gpu-1:71:71 [0] "
_RETRY = _H + "NCCL INFO Call to connect returned Connection refused, retrying\n"
fires_on = {
    "2.3-2.23, still trying": _H + "NCCL INFO Bootstrap : Using [0]lo:127.0.0.1<0>\n" + 3 * _RETRY,
    "2.4-2.23": _H
    + "misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to 192.168.19.14<52822> failed : No route to host\n",
    "2.24-2.26": _H
    + "misc/socket.cc:540 NCCL WARN socketPollConnect: connect returned Connection timed out, exceeded error retry count (35)\n",
    "2.27+": _H
    + "misc/socket.cc:540 NCCL WARN socketPollConnect: connect to 10.0.0.2<40822> returned Connection refused, exceeded error retry count after 35 attempts\n",
}
silent_on = {
    "it answered at last": _H
    + "NCCL INFO socketPollConnect: connect to 10.0.0.2<40822> returned Connection refused, retrying (1/34) after sleep for 100 msec\n",
}
