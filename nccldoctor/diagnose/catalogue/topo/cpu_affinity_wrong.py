"""Processes run on CPUs that are far from their GPUs, or all on one core.

NCCL binds its threads to the CPUs near the GPU, as far as the process may use them. A launcher's or container's CPU set
on the other socket leaves nothing in common (`Affinity for GPU 3 is empty, ignoring`), and proxy threads then work
across the socket; ranks that share one core starve each other.
Not a fault: an empty list of the GPU's CPUs, as virtual machines show it; affinity that nobody asked for.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import who
from nccldoctor.model.events.platform import AffinityIgnored
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "TOPO09"
name = "cpu-affinity-wrong"
severity = Severity.WARNING
needs = (Evidence.INFO_LOG,)
explains = ("PERF01", "HANG03")
confirm = (
    "nvidia-smi topo -m; grep Cpus_allowed_list /proc/PID/status  # the column CPU Affinity of the rank's GPU, against the CPUs that it may use",
)
remedy = (
    "srun --cpu-bind=cores --gpus-per-task=1 --gpu-bind=closest …  # Slurm: CPUs beside the GPU; costs freedom of the scheduler",
    "numactl --cpunodebind=NODE --membind=NODE python train.py  # per rank, with NODE of its GPU; costs memory of the other node; or no --cpu-bind and no taskset at all: NCCL then binds itself",
    "docker run --cpuset-cpus=0-63 …  # Kubernetes: topologyManagerPolicy: single-numa-node; costs placing fewer pods a host",
)


def check(job: Job) -> Iterable[Found]:
    """Ranks whose CPUs and whose GPU's CPUs have nothing in common; ranks that share one single core."""
    events = job.events(AffinityIgnored)
    apart = [e for e in events if e.gpu_cpus and e.process_cpus]
    if apart:
        first = apart[0]
        yield told_by(
            job,
            apart,
            f"{who(job, apart)} may run on CPUs {first.process_cpus}, but GPU {first.gpu} is near CPUs {first.gpu_cpus}",
        )
    crowded: dict[tuple[str, str], list[AffinityIgnored]] = {}
    for event in events:
        if event.process_cpus.isdigit():
            crowded.setdefault((job.host_of(event) or "", event.process_cpus), []).append(event)
    for (_, core), sharing in sorted(crowded.items()):
        if len({e.speaker.pid for e in sharing}) > 1:
            yield told_by(
                job,
                sharing,
                f"{who(job, sharing)} share the one CPU core {core}",
                confidence=Confidence.HIGH,
            )


_LINE = "gpu-1:{0}:{0} [{1}] NCCL INFO ncclTopoGetCpuAffinity: Affinity for GPU {1} is empty, ignoring. (GPU affinity = {2} ; CPU affinity = {3}).\n"

fires_on = {
    "2.28+, other socket": _LINE.format(71, 3, "48-95", "0-7"),
    "2.28+, one core for all": _LINE.format(71, 0, "", "0") + _LINE.format(72, 1, "", "0"),
}
silent_on = {
    "virtual machine": _LINE.format(71, 0, "", "0-31"),
    "they meet": "gpu-1:71:71 [0] NCCL INFO ncclTopoGetCpuAffinity: Affinity for GPU 0 is 0-31. (GPU affinity = 0-31 ; CPU affinity = 0-31).",
    "before 2.28": "gpu-1:71:71 [0] NCCL INFO Setting affinity for GPU 0 to ffff,ffffffff",
}
