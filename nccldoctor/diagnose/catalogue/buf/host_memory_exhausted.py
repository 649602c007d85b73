"""The host has no memory left.

malloc fails, or the kernel (a cgroup's limit, Slurm, Kubernetes) kills a process to get memory back. Pinned buffers,
data loaders that each hold a copy of the data set, and checkpoints that are gathered on one rank are the usual reasons.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import lines, size, who
from nccldoctor.model.events.machine import OomKilled
from nccldoctor.model.events.trouble import AllocationFailed
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "BUF07"
name = "host-memory-exhausted"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT, Evidence.KERNEL)
explains = ("CRASH01", "INIT01", "NET10", "HANG01", "HANG04", "INIT03")
look_first = True
confirm = (
    "free -g; cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.peak  # the host's memory, this container's limit and what it reached",
)
remedy = (
    "DataLoader(…, num_workers=4, persistent_workers=True)  # fewer workers, each holds a copy of the data set's index; costs loading speed",
    "sbatch --mem=0 …  # Kubernetes: resources.limits.memory; costs room for other jobs on the host",
    "torch.save(…)  # of the rank's own shard instead of the gathered state (torch.distributed.checkpoint); costs nothing, and takes the peak off one rank",
)


def check(job: Job) -> Iterable[Found]:
    """One finding for killed processes, else one for failed allocations."""
    killed = job.events(OomKilled)
    failed = [e for e in job.events(AllocationFailed) if e.memory == "host"]
    if killed:
        named = [
            p
            for e in killed
            if e.killed_pid is not None
            for p in job.processes
            if p.pid == e.killed_pid
        ]
        ranks = tuple(sorted({p.rank for p in named if p.rank is not None}))
        hosts = tuple(sorted({p.host for p in named if p.host})) or job.hosts_of(killed)
        first = killed[0]
        process = f" process {first.killed_pid}" if first.killed_pid else " a process of the job"
        name_ = f" ({first.process_name})" if first.process_name else ""
        where = f" on {hosts[0]}" if len(hosts) == 1 else ""
        rank = f"Rank {ranks[0]}: " if len(ranks) == 1 else ""
        yield Found(
            title=f"{rank}the out-of-memory killer ended{process}{name_}{where}",
            evidence=lines([*killed, *failed]),
            ranks=ranks,
            hosts=hosts,
        )
    elif failed:
        wanted = max((e.size_bytes or 0 for e in failed), default=0)
        yield told_by(job, failed, f"{who(job, failed)}: the host has no memory for {size(wanted)}")


fires_on = {
    "2.4+": "gpu-1:71:71 [0] include/alloc.h:40 NCCL WARN Failed to malloc 1048576 bytes\n",
    "2.14+": "gpu-1:71:71 [0] misc/utils.cc:60 NCCL WARN Unrecoverable error detected: malloc(size=4194304) returned null.\n",
    "kernel": "[1209831.114] Out of memory: Killed process 41872 (python3) total-vm:81920000kB, anon-rss:64000000kB\n",
    "Slurm": "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.\n",
    "Kubernetes": "    Last State:     Terminated\n      Reason:       OOMKilled\n",
}
silent_on = {
    "the GPU's memory": "gpu-1:71:71 [0] include/alloc.h:110 NCCL WARN Cuda failure 2 'out of memory'\n",
}
