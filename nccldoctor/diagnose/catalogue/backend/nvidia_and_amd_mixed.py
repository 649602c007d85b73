"""Ranks on NCCL and ranks on RCCL are meant to be one group.

RCCL has NCCL's interface, not its wire format: an AMD and an NVIDIA rank cannot build a communicator together, and
the bootstrap hangs or fails on the first message.
Not a fault: two separate jobs, one a vendor, whose logs lie in one folder.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.versions import by_version, running, sentence
from nccldoctor.diagnose.words import lines
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "BACKEND05"
name = "nvidia-and-amd-mixed"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("BACKEND04", "INIT01", "INIT03", "INIT07", "NET10", "HANG02", "HANG04", "CRASH01")
confirm = (
    "for h in $HOSTS; do ssh $h 'hostname; nvidia-smi -L 2>/dev/null || rocm-smi --showproductname'; done  # which host has which vendor",
)
remedy = (
    "sbatch --constraint=GPU_TYPE …  # one vendor a job, where no exchange is meant; costs time in the queue",
    "dist.new_group(nvidia_ranks, backend='nccl'); dist.new_group(amd_ranks, backend='nccl')  # on all ranks: one group a vendor; costs two slower groups instead of one",
    "dist.new_group(backend='gloo')  # for what must cross between the vendors; costs a copy to the CPU and TCP's speed",
)


def check(job: Job) -> Iterable[Found]:
    """One finding where processes of both libraries sit in one communicator, or wait for ranks that never come."""
    libraries = running(job)
    both = [libraries[p] for p in sorted(libraries)]
    if {one.library for one in both} != {"nccl", "rccl"}:
        return
    together = False
    lonely = {one.process for one in both}
    for comm in job.communicators:
        members = [
            libraries[m.process]
            for m in comm.members
            if m.process is not None and m.process in libraries
        ]
        together = together or len({m.library for m in members}) > 1
        if all(m.process is not None for m in comm.members):
            lonely -= {m.process for m in comm.members}
    waiting = {libraries[p].library for p in lonely}
    if not together and len(waiting) < 2:
        return
    groups = by_version(job, both)
    yield Found(
        title=f"NVIDIA and AMD ranks are in one job: {sentence(job, groups)}; they cannot build a communicator together",
        evidence=lines(group[0].event for group in groups.values()),
        confidence=Confidence.HIGH if together else Confidence.MEDIUM,
        ranks=tuple(r for one in both if (r := job.processes[one.process].rank) is not None),
        hosts=job.hosts_of(one.event for one in both),
    )


_NCCL = (
    "gpu-1:71:71 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n"
    "gpu-1:71:71 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks {0} cudaDev 0 nvmlDev 0 busId 60 commId 0xaa - Init START\n"
)
_RCCL = (
    "mi-1:81:81 [0] NCCL INFO RCCL version : 2.21.5-HEAD:0cbce2a\n"
    "mi-1:81:81 [0] NCCL INFO ncclCommInitRank comm 0x2 rank {0} nranks {1} cudaDev 0 nvmlDev 0 busId c1000 commId {2} - Init START\n"
)

fires_on = {
    "one communicator": _NCCL.format(2) + _RCCL.format(1, 2, "0xaa"),
    "each waits for the other": _NCCL.format(2) + _RCCL.format(1, 2, "0xbb"),
}
silent_on = {
    "a job each": _NCCL.format(1) + _RCCL.format(0, 1, "0xbb"),
    "NCCL alone": _NCCL.format(2),
}
