"""Two ranks of one communicator use the same GPU.

NCCL gives each rank of a communicator its own GPU and refuses two on one. Nearly always `torch.cuda.set_device` is
missing, comes after the first collective, or gets the global rank instead of LOCAL_RANK; else CUDA_VISIBLE_DEVICES
shows each process the same GPU, or there are more processes than GPUs on the host.
Ranks in different MIG slices of one GPU are not a fault of the program; NCCL supports only one slice per GPU.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.model.events.trouble import DuplicateGpu
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "INIT02"
name = "duplicate-gpu"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT01", "INIT07", "CRASH01", "NET10", "HANG04")
confirm = (
    "for p in $(pgrep -f train.py); do tr '\\0' '\\n' </proc/$p/environ | grep -E '^(LOCAL_RANK|CUDA_VISIBLE_DEVICES)='; done  # each process another LOCAL_RANK, and not the same single GPU for all",
)
remedy = (
    "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))  # before init_process_group and the first .cuda(); costs nothing",
    "torchrun --nproc-per-node=$(nvidia-smi -L | wc -l) train.py  # no more processes than GPUs; costs the ranks that had none",
)


def check(job: Job) -> Iterable[Found]:
    """One finding: the ranks that NCCL names, or those that complain where it names none."""
    events = job.events(DuplicateGpu)
    if not events:
        return
    named = {r for e in events for r in (e.first_rank, e.second_rank) if r is not None}
    ranks = tuple(sorted(named or set(job.ranks_of(events))))
    device = next((f" (PCI {e.bus_id})" for e in events if e.bus_id), "")
    who = f"Ranks {', '.join(map(str, ranks))}" if ranks else "Several ranks"
    hosts = job.hosts_of(events)
    where = f" of {', '.join(hosts)}" if hosts else ""
    yield Found(
        title=f"{who} use the same GPU{where}{device}: NCCL refuses to build the communicator",
        evidence=tuple(e.line for e in events[:4]),
        ranks=ranks,
        hosts=hosts,
    )


fires_on = {
    "2.3-2.29": "gpu-1:71:71 [0] init.cc:904 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60",
    "2.30.7+": "gpu-1:71:71 [0] init.cc:904 (initTransportsRank) NCCL WARN Multiple Ranks are using the same GPU/Partition",
    "PyTorch's traceback alone": (
        "[rank1]: torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:93, invalid usage "
        "(run with NCCL_DEBUG=WARN for details), NCCL version 2.28.9\n"
        "[rank1]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
        "[rank1]: Last error:\n"
        "[rank1]: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 60\n"
    ),
}
silent_on = {
    "two ranks, two GPUs": (
        "gpu-1:71:71 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xaa - Init START\n"
        "gpu-1:72:72 [1] NCCL INFO ncclCommInitRank comm 0x7 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 70 commId 0xaa - Init START\n"
    ),
}
