"""A host does not know its own name, so Gloo takes loopback and no other host can reach it.

Gloo resolves the host's name to find its address. Containers and cloud images often have it at 127.0.1.1 or not at all.
On one host that is fine; between hosts the full mesh then fails or hangs.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.events.torch import GlooError, LoopbackFallback
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "NET13"
name = "own-name-resolves-to-loopback"
severity = Severity.ERROR
needs = (Evidence.OUTPUT,)
explains = ("NET04", "INIT03", "NET10")
confirm = ("getent hosts $(hostname)  # must print the host's routable address, not 127.0.1.1",)
remedy = (
    "export GLOO_SOCKET_IFNAME=eth0  # the full name of the interface that all hosts share; costs nothing",
    "sudo sed -i \"s/^127.0.1.1.*/$(hostname -I | cut -d' ' -f1) $(hostname)/\" /etc/hosts  # costs an edit on each host, which DHCP may make wrong again",
)


def check(job: Job) -> Iterable[Found]:
    """An error between hosts, a warning where Gloo then failed, else a note."""
    events = job.events(LoopbackFallback)
    if not events:
        yield from _refused(job)
        return
    failed = [e for e in job.events(GlooError) if e.kind != "size-mismatch"]
    across = len(job.hosts) > 1
    yield told_by(
        job,
        events,
        f"{who(job, events)}: the host's own name does not resolve, so Gloo uses loopback",
        evidence=lines([*events[:3], *failed[:1]]),
        confidence=Confidence.HIGH if across and failed else Confidence.LOW,
        severity=Severity.ERROR if across and failed else Severity.NOTE,
    )


def _refused(job: Job) -> Iterable[Found]:
    """Gloo was given a loopback address for another rank, and nothing answers there."""
    failed = [
        e
        for e in job.events(GlooError)
        if e.kind == "connect" and (e.peer or "").startswith("[127.")
    ]
    if failed:
        yield Found(
            title=f"{who(job, failed)} looks for another rank on its own loopback ({failed[0].peer}): the other host's name resolves to that",
            evidence=lines(failed),
            ranks=job.ranks_of(failed),
            hosts=job.hosts_of(failed),
            confidence=Confidence.MEDIUM,
        )


_W = "[W1130 04:15:21.016880797 ProcessGroupGloo.cpp:{n}] Warning: Unable to resolve hostname to a (local) address. Using the loopback address as fallback. Manually set the network interface to bind to with GLOO_SOCKET_IFNAME. (function operator())\n"
fires_on = {
    "2.0-2.4": _W.format(n=524),
    "1.0-2.3, refused": "  what():  [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:724] connect [127.0.1.1]:3210: Connection refused\n",
    "2.5+": "[rank0]:" + _W.format(n=760),
}
silent_on = {
    "told its interface": "GLOO_SOCKET_IFNAME=eth0\n[rank0]: step 1\n",
}
