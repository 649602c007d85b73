"""Which host and rank an address in a message belongs to."""

from nccldoctor.model.job import Host, Job

LOOPBACK = ("127.", "::1", "localhost")


def hostname(peer: str | None) -> str | None:
    """`10.0.0.2<40822>`, `[10.0.0.2]:40822` or `10.0.0.2:40822` as `10.0.0.2`; None for none."""
    if not peer:
        return None
    bare = (peer.rpartition("<")[0] or peer).strip("[]").partition("]")[0]
    return bare.rpartition(":")[0] if bare.count(":") == 1 else bare


def host_of_address(job: Job, peer: str | None) -> str | None:
    """The one host that has this address or name; None where no or several hosts have it."""
    address = hostname(peer)
    if not address or address.startswith(LOOPBACK):
        return None
    return _only(job, [h for h in job.hosts if address in h.addresses or _same(h.name, address)])


def _only(job: Job, hosts: list[Host]) -> str | None:
    return hosts[0].name if len(hosts) == 1 else None


def _same(name: str, address: str) -> bool:
    return address == name or address.partition(".")[0] == name
