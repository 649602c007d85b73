"""A job on GPUs runs its collectives over Gloo or MPI.

Gloo moves tensors through host memory and TCP: correct, and one to two orders of magnitude slower than NCCL. It happens
when the program or a launcher's default asks for it, when the PyTorch build has no NCCL (a `+cpu` wheel, Windows,
macOS), or when the group was made before any GPU was visible.
Not a fault: a CPU-only job; a Gloo group beside an NCCL one (`cpu:gloo,cuda:nccl`), which checkpoints and barriers use.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.event import Event
from nccldoctor.model.events.gpus import GpuState
from nccldoctor.model.events.nccl import CommStart, NetworkChosen
from nccldoctor.model.events.torch import BackendInUse, CudaError, GlooError
from nccldoctor.model.events.usage import BackendNotBuilt, GpusInUse
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "BACKEND01"
name = "wrong-backend"
severity = Severity.WARNING
needs = (Evidence.OUTPUT,)
explains = ("CRASH01", "PERF01")
confirm = (
    "python -c 'import torch, torch.distributed as d; print(torch.__version__, torch.cuda.is_available(), d.is_nccl_available())'  # in the job's image: True True, and no +cpu in the version",
)
remedy = (
    "dist.init_process_group('cpu:gloo,cuda:nccl')  # NCCL for CUDA tensors, Gloo for CPU tensors; costs a second set of connections, nothing per step",
    "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu126  # when the version ends in +cpu; costs a new image of some GB",
)


def check(job: Job) -> Iterable[Found]:
    """A build without NCCL is an error; Gloo for CUDA tensors a warning; both need proof of GPUs or of the wish for NCCL."""
    missing = [e for e in job.events(BackendNotBuilt) if e.backend.upper() == "NCCL"]
    if missing:
        yield told_by(
            job,
            missing,
            f"{who(job, missing)} asks for NCCL, but this PyTorch was built without it",
            severity=Severity.ERROR,
        )
        return
    if len(job.events(CommStart)) + len(job.events(NetworkChosen)):
        return
    slow = [e for e in job.events(BackendInUse) if _for_gpus(e.backend)]
    proof = _gpus(job)
    explicit = [e for e in slow if "cuda:" in e.backend or e.backend == "cpu:gloo"]
    if slow and (proof or explicit):
        yield _found(job, slow, proof, Confidence.HIGH)
    elif not slow and proof and job.events(GlooError):
        yield _found(job, list(job.events(GlooError)), proof, Confidence.MEDIUM)


def _for_gpus(backend: str) -> bool:
    """Would CUDA tensors not go to NCCL?"""
    if ":" not in backend:
        return backend in ("gloo", "mpi")
    return "cuda:nccl" not in backend


def _gpus(job: Job) -> list[Event]:
    """Proof that the program has GPUs."""
    return [*job.events(GpusInUse)[:1], *job.events(GpuState)[:1], *job.events(CudaError)[:1]]


def _found(
    job: Job,
    events: list[BackendInUse] | list[GlooError],
    proof: list[Event],
    confidence: Confidence,
) -> Found:
    backend = events[0].backend if isinstance(events[0], BackendInUse) else "gloo"
    return told_by(
        job,
        events,
        f"{who(job, events, 'The job')} uses the GPUs, but its collectives run over {backend} instead of NCCL",
        evidence=lines([*events[:2], *proof]),
        confidence=confidence,
    )


fires_on = {
    "no NCCL in the build": "RuntimeError: Distributed package doesn't have NCCL built in",
    "Lightning": "GPU available: True (cuda), used: True\ndistributed_backend=gloo\nAll distributed processes registered. Starting with 2 processes\n",
    "backend config": "[rank0]: get_backend_config() = cpu:gloo,cuda:gloo",
    "CUDA tensor, CPU group": "[rank0]: RuntimeError: No backend type associated with device type cuda",
    "mpi on GPUs": "GPU available: True (cuda), used: True\ndistributed backend: mpi\n",
}
silent_on = {
    "CPU job": "distributed_backend=gloo\nAll distributed processes registered. Starting with 2 processes\n",
    "Gloo beside NCCL": "GPU available: True (cuda), used: True\n[rank0]: get_backend_config() = cpu:gloo,cuda:nccl\n",
    "NCCL works": (
        "GPU available: True (cuda), used: True\ndistributed_backend=nccl\n"
        "gpu-1:71:71 [0] NCCL INFO Using network Socket\n"
    ),
}
