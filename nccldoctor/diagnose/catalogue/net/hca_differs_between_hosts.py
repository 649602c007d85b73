"""Hosts of one job have different InfiniBand or RoCE devices.

Rings and rails are laid by device index, so another number, order or kind of devices on one host joins ports that do
not belong together: slow, or a silent hang when InfiniBand meets RoCE or a storage port is among them (NVIDIA/nccl
issue 2428). Different names for the same devices alone are a note. Hosts that are meant to differ are not a fault.
"""

import re
from collections.abc import Iterable, Mapping

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines, some
from nccldoctor.model.events.nccl import NetDevices
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "NET07"
name = "hca-differs-between-hosts"
severity = Severity.WARNING
needs = (Evidence.NETWORK,)
explains = ("NET03", "HANG02", "PERF01", "TOPO08")
look_first = True
confirm = (
    "for h in $HOSTS; do ssh $h 'hostname; ibdev2netdev; ibv_devinfo | grep -E \"hca_id|link_layer|state\"'; done  # which port is down or differs",
)
remedy = (
    "export NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3  # per host: only the ports of the compute fabric, in rail order; costs the ports left out",
    "scontrol update nodename=HOST state=drain reason=hca  # the host that lacks one, until it is mended; costs its GPUs",
)
_ITEM = re.compile(r"(\w[\w\-]{0,63}):(\d+)(?::-?\d+){0,4}/(IB|RoCE|InfiniBand|Ethernet)\b")
Devices = tuple[tuple[str, str], ...]


def check(job: Job) -> Iterable[Found]:
    """One finding for the job: the hosts that differ from most."""
    by_host: dict[str, Devices] = {}
    proof: dict[str, NetDevices] = {}
    for event in job.events(NetDevices):
        host = job.host_of(event)
        devices = tuple((f"{n}:{p}", layer) for n, p, layer in _ITEM.findall(event.devices))
        if host and event.network == "IB" and devices:
            by_host.setdefault(host, devices)
            proof.setdefault(host, event)
    layers = {h: {layer for _, layer in d} for h, d in by_host.items()}
    if (
        any(len(found) > 1 for found in layers.values())
        or len(set(map(frozenset, layers.values()))) > 1
    ):
        told = "; ".join(
            f"{h}: {' and '.join(sorted(found))}" for h, found in sorted(layers.items())[:4]
        )
        yield _found(
            job, f"InfiniBand and RoCE ports are mixed ({told})", by_host, proof, list(by_host)
        )
        return
    for what, key in (("number", len), ("names", lambda d: tuple(n for n, _ in d))):
        shapes = {h: key(d) for h, d in by_host.items()}
        if len(set(shapes.values())) > 1:
            usual = max(shapes.values(), key=lambda s: (list(shapes.values()).count(s), str(s)))
            odd = sorted(h for h, s in shapes.items() if s != usual)
            told = "; ".join(f"{h}: {' '.join(n for n, _ in by_host[h])}" for h in odd[:3])
            yield _found(
                job,
                f"{some(odd)}: {'other names' if what == 'names' else 'another number'} of HCAs than on the other hosts ({told})",
                by_host,
                proof,
                odd,
                Severity.WARNING if what == "number" else Severity.NOTE,
            )
            return


def _found(
    job: Job,
    title: str,
    by_host: Mapping[str, Devices],
    proof: Mapping[str, NetDevices],
    odd: list[str],
    how_bad: Severity = Severity.WARNING,
) -> Found:
    others = [h for h in sorted(by_host) if h not in odd]
    events = [proof[h] for h in [*sorted(odd)[:3], *others[:1]]]
    return Found(
        title=title,
        evidence=lines(events),
        hosts=tuple(odd),
        confidence=Confidence.MEDIUM,
        severity=how_bad,
    )


_A = "gpu-1:71:71 [0] NCCL INFO NET/IB : Using "
_B = "gpu-2:81:81 [0] NCCL INFO NET/IB : Using "
_BOTH = "[0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
fires_on = {
    "2.12-2.19": _A + _BOTH + _B + "[0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.2<0>\n",
    "mixed on one host": _A
    + "[0]mlx5_0:1/IB [1]mlx5_4:1/RoCE [RO]; OOB eth0:10.0.0.1<0>\n"
    + _B
    + _BOTH,
    "2.20-2.23 fused": _A
    + "[0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [RO]; OOB eth0:10.0.0.1<0>\n"
    + _B
    + "[0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.2<0>\n",
}
silent_on = {
    "the same": _A + _BOTH + _B + _BOTH,
    "one host": _A + _BOTH,
}
