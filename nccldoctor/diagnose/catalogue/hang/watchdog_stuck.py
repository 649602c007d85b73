"""PyTorch's heartbeat monitor found its own watchdog stuck: not a collective's time-out.

The watchdog thread queries CUDA events. When it makes no progress for minutes, a CUDA call does not return or another
thread holds the GIL inside one: a driver deadlock, a hanging abort, or a profiler. The rank that says so is the rank
that is ill, unlike with a collective's time-out.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import who
from nccldoctor.model.events.torch import WatchdogStuck
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "HANG05"
name = "watchdog-stuck"
severity = Severity.ERROR
needs = (Evidence.WATCHDOG, Evidence.OUTPUT)
explains = ()
look_first = True
confirm = (
    "py-spy dump --native --pid PID  # of that rank: which thread is inside a CUDA call and holds the GIL?",
)
remedy = (
    "export TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=1800  # only if such a pause is expected, as when compiling; costs half an hour until a real one is noticed",
    "sudo nvidia-smi --gpu-reset -i INDEX  # where the CUDA call never returns after the process is killed; costs what runs on that GPU",
)


def check(job: Job) -> Iterable[Found]:
    """One finding for all ranks that say so."""
    events = job.events(WatchdogStuck)
    if events:
        seconds = max(e.seconds or 0 for e in events)
        long = f" for {seconds} s" if seconds else ""
        yield told_by(
            job,
            events,
            f"{who(job, events)}: PyTorch's watchdog made no progress{long}: a CUDA call or "
            "the GIL holds it, no collective timed out",
        )


fires_on = {
    "2.2-2.5, not the last line": "[rank4]:[E ProcessGroupNCCL.cpp:1316] [PG 5 Rank 0] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=2",
    "2.3+": (
        "[rank2]:[E1130 03:56:21.531759876 ProcessGroupNCCL.cpp:689] [PG ID 0 PG GUID 0 Rank 2] ProcessGroupNCCL's "
        "watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives."
    ),
}
silent_on = {"a collective's time-out": "[rank0]: Watchdog preparing to dump"}
