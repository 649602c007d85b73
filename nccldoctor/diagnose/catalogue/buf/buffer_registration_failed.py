"""A buffer could not be registered with the network, with peers or with NVLink SHARP; NCCL copies it instead.

Registration saves a copy. It fails for memory that is not allocated as NCCL needs it (ncclMemAlloc, PyTorch's memory
pool), for expandable segments that move, or when the device has no room for more registrations. "Not supported"
notices at set-up are not this.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.events.machine import RegistrationFailed
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "BUF06"
name = "buffer-registration-failed"
severity = Severity.WARNING
needs = (Evidence.NCCL_LOG,)
explains = ()
confirm = (
    "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,REG  # for one run: which buffer, and of which size, could not be registered",
)
remedy = (
    "pool = torch.cuda.MemPool(backend.mem_allocator)  # allocate the registered buffers from it (ncclMemAlloc); costs a pool that other tensors do not share",
    "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False  # segments that move cannot stay registered; costs more fragmentation",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a kind of registration."""
    for how, events in apart(job.events(RegistrationFailed), lambda e: e.how).items():
        yield Found(
            title=f"{who(job, events)}: {how} registration of user buffers fails; NCCL copies them",
            evidence=lines(events),
            ranks=job.ranks_of(events)
            or tuple(sorted({e.reporting_rank for e in events if e.reporting_rank is not None})),
            hosts=job.hosts_of(events),
        )


_H = "gpu-1:71:71 [0] "
fires_on = {
    "2.24-2.25": _H
    + "transport/net.cc:1700 NCCL WARN rank 3 failed to NET register userbuff 0x7f2a00000000 buffSize 16777216\n",
    "2.26+": _H
    + "NCCL INFO rank 0 failed to NVLS register sendbuff 0x7f2a00000000 sendbuffSize 1048576 recvbuff 0x7f2a00100000\n",
}
silent_on = {
    "not supported": _H + "NCCL INFO NVLS multicast support is not available on dev 0\n",
}
