"""A GPU has fewer active NVLinks than its siblings, or slower ones.

NCCL builds its rings over the links that are up, and a ring is as fast as its slowest GPU: one link down slows all
ranks of the host. Links drop after errors, or when the fabric manager did not train them. It is not a fault that a
model has fewer links everywhere, or that MIG switches them off.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines
from nccldoctor.model.events.gpus import GpuState, LinkMatrix
from nccldoctor.model.events.machine import NvlinkFault
from nccldoctor.model.events.measured import ProbeRank
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "TOPO04"
name = "nvlink-degraded"
severity = Severity.ERROR
needs = (Evidence.HOST_STATE,)
explains = ("PERF01", "TOPO02", "TOPO07", "TOPO08")
confirm = (
    "nvidia-smi nvlink -s -i INDEX; nvidia-smi nvlink -e -i INDEX; systemctl status nvidia-fabricmanager  # which link, its errors, and whether the fabric manager set it up",
)
remedy = (
    "sudo nvidia-smi --gpu-reset -i INDEX  # when nothing runs on it; with NVSwitch all GPUs of the host together: sudo nvidia-smi -r; costs what runs on them",
    "scontrol update nodename=HOST state=drain reason=nvlink  # where the link stays down: the GPU or baseboard is to be replaced; costs the host until then",
)

SLOWER = 0.95


def check(job: Job) -> Iterable[Found]:
    """One finding a GPU by its own link count; else by NCCL's own check; else by a matrix in which one row is short."""
    by_count = list(_by_count(job))
    by_nccl = [] if by_count else list(_by_nccl(job))
    yield from by_count or by_nccl or _by_matrix(job)


def _by_count(job: Job) -> Iterable[Found]:
    siblings: dict[str, list[GpuState]] = {}
    for gpu in job.events(GpuState):
        if gpu.nvlinks_active is not None and gpu.facts.get("mig") != "enabled":
            siblings.setdefault(gpu.name or "?", []).append(gpu)
    for alike in siblings.values():
        usual = max(gpu.nvlinks_active or 0 for gpu in alike)
        speed = max((gpu.nvlink_gbytes_per_second or 0.0 for gpu in alike), default=0.0)
        best = next(gpu for gpu in alike if gpu.nvlinks_active == usual)
        for gpu in alike:
            own, host = gpu.nvlink_gbytes_per_second, gpu.speaker.host
            if (gpu.nvlinks_active or 0) < usual:
                what = f"has {gpu.nvlinks_active} active NVLinks, its siblings {usual}"
            elif own and own < SLOWER * speed:
                what = f"has an NVLink of {own:g} GB/s, its siblings {speed:g}"
            else:
                continue
            ranks = _ranks(job, gpu)
            yield Found(
                title=f"GPU {gpu.index}{_at(gpu)} {what}",
                evidence=lines([gpu, best]),
                ranks=ranks,
                hosts=(host,) if host else (),
            )


def _by_nccl(job: Job) -> Iterable[Found]:
    """`NCCL DIAG [INFO] NVLink: inactive link(s) on rank(s) {3}`."""
    faults: dict[tuple[str, str], NvlinkFault] = {}
    for fault in job.events(NvlinkFault):
        faults.setdefault((fault.fault, fault.subject), fault)
    for fault in faults.values():
        numbers = fault.subject.strip("{}").replace(" ", "").split(",")
        ranks = tuple(int(n) for n in numbers if n.isdigit())
        hosts = job.hosts_of_ranks(ranks)
        yield Found(
            title=f"NCCL's own check finds {fault.fault.replace('(s)', 's')} on ranks {fault.subject}",
            evidence=(fault.line,),
            ranks=ranks,
            hosts=hosts,
        )


def _by_matrix(job: Job) -> Iterable[Found]:
    for matrix in job.events(LinkMatrix):
        sums = {
            device: sum(
                int(link[2:] or 0)
                for (a, _), link in matrix.links.items()
                if a == device and link.startswith("NV")
            )
            for device in matrix.devices
            if device.startswith("GPU")
        }
        usual, count = Counter(sums.values()).most_common(1)[0] if sums else (0, 0)
        if len(sums) < 3 or count * 2 <= len(sums):
            continue
        short = [device for device, total in sums.items() if total < usual]
        host = matrix.speaker.host
        if short:
            yield Found(
                title=f"{_names(short)}{f' on {host}' if host else ''} has fewer NVLinks to its peers than the other GPUs",
                evidence=(matrix.line,),
                confidence=Confidence.MEDIUM,
                hosts=(host,) if host else (),
            )


def _names(devices: Sequence[str]) -> str:
    return ", ".join(device.replace("GPU", "GPU ") for device in devices)


def _at(gpu: GpuState) -> str:
    inside = " ".join(x for x in (gpu.name, gpu.bus_id) if x)
    where = f" on {gpu.speaker.host}" if gpu.speaker.host else ""
    return f" ({inside}){where}" if inside else where


def _ranks(job: Job, gpu: GpuState) -> tuple[int, ...]:
    """The rank on this GPU, by its PCI address."""
    if not gpu.bus_id:
        return ()
    here = gpu.bus_id.lower()[-10:]
    return tuple(
        r.rank
        for r in job.events(ProbeRank)
        if r.bus_id and r.bus_id.lower()[-10:] == here and r.host == gpu.speaker.host
    )


_H100 = "GPU {0}: NVIDIA H100 80GB HBM3 (UUID: GPU-0000000{0}-0000-0000-0000-000000000000)\n"
_UP = "\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n"

fires_on = {
    "nvlink -s": _H100.format(0)
    + _UP
    + _H100.format(1)
    + "\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n",
    "NCCL 2.31": "gpu-node-01:1048 NCCL DIAG [INFO] NVLink: inactive link(s) on rank(s) {3} across 8 ranks in comm 0x4897ee6c86894e77\n",
}
silent_on = {
    "nvlink -s": _H100.format(0) + _UP + _H100.format(1) + _UP,
    "topo -m, one pair": "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tNV18\t0-31\t0\t\tN/A\nGPU1\tNV18\t X \t0-31\t0\t\tN/A\n",
}
