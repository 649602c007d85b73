"""NVSwitch's fabric, multicast (NVLS) or a multi-node NVLink domain is not ready.

On NVSwitch machines GPUs work together only after the fabric manager has set the switches up; before that CUDA answers
802 `system not yet initialized`. NVLS needs multicast objects in the switches, and a multi-node domain needs nvidia-imex
on every host and its channel device in the container; NCCL says which of them fails.
Not a fault: `NVLS multicast support is not available` (the GPU has none), fabric state 3 on single hosts.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.reasons import FABRIC, failures
from nccldoctor.diagnose.words import who
from nccldoctor.model.event import Event
from nccldoctor.model.events.platform import FabricProblem
from nccldoctor.model.events.trouble import CudaFailure
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "INIT08"
name = "fabric-not-ready"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = (
    "BACKEND08",
    "INIT01",
    "INIT06",
    "INIT07",
    "NET10",
    "HANG04",
    "CRASH01",
    "BUF06",
    "PERF01",
)
confirm = (
    "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A2 Fabric  # state must be Completed, status Success",
    "nvidia-imex-ctl -N; ls /dev/nvidia-caps-imex-channels  # multi-node NVLink: READY on all hosts, a channel in the container",
)
remedy = (
    "sudo systemctl restart nvidia-fabricmanager  # its version must equal the driver's; costs what runs on the GPUs of the host",
    "docker run --device=/dev/nvidia-caps-imex-channels/channel0 …  # multi-node NVLink in containers; costs nothing",
    "NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0 torchrun …  # for one run only: shows whether the rest works; it costs NVLink SHARP and NVLink between hosts",
)

_MULTICAST = (
    "sudo nvidia-smi --gpu-reset  # all GPUs of the host, with the fabric manager running, or reboot; costs what runs on them",
    "export NCCL_NVLS_ENABLE=0  # until the fabric is ready; costs up to a third of all-reduce bandwidth",
    *confirm[:1],
)
_WHAT = {"nvls": "multicast (NVLS)", "mnnvl": "the multi-node NVLink domain"}


def check(job: Job) -> Iterable[Found]:
    """One finding a kind; a warning where NCCL says that it goes on without."""
    by_kind = apart(job.events(FabricProblem), lambda event: event.kind)
    for kind, problems in by_kind.items():
        handled = all(e.handled for e in problems)
        end = "; NCCL goes on without it" if handled else ""
        yield _found(
            job,
            problems,
            f"cannot use {_WHAT.get(kind, kind)}: {problems[0].reason[:160]}{end}",
            Severity.WARNING if handled else None,
        )
    cold = failures(job, FABRIC)
    nvls = [
        e
        for e in job.events(CudaFailure)
        if "nvls.cc" in (e.place or "") and "out of memory" not in e.reason and e not in cold
    ]
    if nvls and not by_kind:
        yield _found(
            job,
            nvls,
            f"cannot set up multicast (NVLS): {nvls[0].reason}; mostly the fabric manager was restarted under running processes",
            remedy=_MULTICAST,
        )
    if cold and not by_kind:
        yield _found(
            job,
            cold,
            f"finds the NVSwitch fabric not set up: {cold[0].reason} (is the fabric manager running?)",
        )


def _found(
    job: Job,
    events: Iterable[Event],
    what: str,
    severity: Severity | None = None,
    remedy: tuple[str, ...] = (),
) -> Found:
    events = list(events)
    return told_by(job, events, f"{who(job, events)} {what}", severity=severity, remedy=remedy)


fires_on = {
    "PyTorch, 802": "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized",
    "2.19+, 802": "gpu-1:71:71 [0] init.cc:1 NCCL WARN Cuda failure 802 'system not yet initialized'",
    "before 2.27, multicast": "gpu-1:71:71 [0] transport/nvls.cc:1 NCCL WARN Cuda failure 401 'the operation cannot be performed in the present state'",
    "2.18+, multicast objects": "gpu-1:71:71 [0] transport/nvls.cc:165 NCCL WARN Cuda failure 1 'invalid argument'",
    "2.27+, multicast": "gpu-1:71:71 [0] transport/nvls.cc:1 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation cannot be performed in the present state'",
    "2.27-2.28, goes on": "gpu-1:71:71 [0] NCCL INFO Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation cannot be performed in the present state'. Proceeding without NVLS support.",
    "2.25-2.26, IMEX": "gpu-1:71:71 [0] mnnvl.cc:1 NCCL WARN MNNVL (cliqueSize 8) is available but not supported on this system. Check the IMEX configuration.",
}
silent_on = {
    "no multicast on this GPU": "gpu-1:71:71 [0] NCCL INFO NVLS multicast support is not available on dev 0",
    "no memory is another matter": "gpu-1:71:71 [0] transport/nvls.cc:165 NCCL WARN Cuda failure 2 'out of memory'",
    "single host": "gpu-1:71:71 [0] NCCL INFO MNNVL busId 0x60 fabric UUID 0.0 cliqueId 0x0 state 3 healthMask 0x0",
}
