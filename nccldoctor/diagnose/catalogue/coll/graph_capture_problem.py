"""A collective and the capture of a CUDA graph get in each other's way.

While a stream is being captured, most CUDA calls are forbidden: a communicator that is made on the first call, a
watchdog that queries events, or a synchronisation break the capture. Ranks that capture different collectives, or
replay a different number of times, hang like ranks that call different collectives. With NCCL 2.29 and later a
communicator can be told not to expect graphs (graphUsageMode), and hangs when it meets one.
A process that hangs in destroy_process_group because a graph still holds NCCL is HANG06.
"""

import re
from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import who
from nccldoctor.model.event import Event
from nccldoctor.model.events.torch import CudaError, PythonException
from nccldoctor.model.events.trouble import CudaFailure, Warned
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "COLL05"
name = "graph-capture-problem"
severity = Severity.ERROR
needs = (Evidence.OUTPUT, Evidence.NCCL_LOG)
explains = ("HANG01", "HANG02", "HANG04", "CRASH01", "CRASH02", "INIT07")
look_first = True
confirm = (
    "print(hash(tuple(captured_calls)), replays)  # on each rank: the same collectives, in the same order, replayed the same number of times",
)
remedy = (
    "dist.all_reduce(torch.zeros(1, device='cuda')); torch.cuda.synchronize()  # warm the communicator up before capture; costs one call",
    "torch.cuda.graph(graph, capture_error_mode='thread_local')  # so that the watchdog's queries do not break the capture; costs the check of other threads",
)
_TROUBLE = re.compile(
    r"stream is capturing|(?:during|due to|unjoined|invalidated).{0,60}\bcapture|StreamCapture|"
    r"graphUsageMode is set to .{0,20}but the user is capturing|capture sequence",
    re.I,
)


def check(job: Job) -> Iterable[Found]:
    """One finding for all who complain."""
    events: list[tuple[Event, str]] = [
        *((e, e.message) for e in job.events(Warned)),
        *((e, e.reason) for e in job.events(CudaFailure)),
        *((e, e.reason) for e in job.events(CudaError)),
        *((e, f"{e.type}: {e.message}") for e in job.events(PythonException)),
    ]
    told = [(e, text) for e, text in events if _TROUBLE.search(text)]
    if told:
        complaining = [event for event, _ in told]
        yield told_by(
            job,
            complaining,
            f"{who(job, complaining)}: a CUDA graph's capture and NCCL get in each other's way: {told[0][1][:200]}",
        )


fires_on = {
    "PyTorch": (
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/home/user/train.py", line 92, in step\n'
        "[rank0]:     dist.all_reduce(x)\n"
        "[rank0]: torch.AcceleratorError: CUDA error: operation not permitted when stream is capturing\n"
    ),
    "NCCL": (
        "gpu-1:71:71 [0] enqueue.cc:300 NCCL WARN Cuda failure 'operation failed due to a previous error during capture'"
    ),
}
silent_on = {
    "graphs that work": "[rank0]: captured 12 CUDA graphs in 3.1 s\n",
    "captured and hung in destroy": "[rank0]: graph replayed\n",
}
