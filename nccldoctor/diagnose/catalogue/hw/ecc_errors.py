"""A GPU's memory had errors that could not be corrected, or waits for a reset to replace a bad row.

Corrected errors are normal in small numbers. A pending row remap works, but the next error of that row is fatal;
a failed one means that the spares are used up.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.reasons import MEMORY as MEMORY_ERROR
from nccldoctor.diagnose.reasons import failures
from nccldoctor.diagnose.words import lines, who
from nccldoctor.knowledge.xid import MEMORY
from nccldoctor.model.events.gpus import GpuState
from nccldoctor.model.events.machine import EccCounted, Xid
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "HW02"
name = "ecc-errors"
severity = Severity.ERROR
needs = (Evidence.HOST_STATE, Evidence.KERNEL, Evidence.OUTPUT, Evidence.NCCL_LOG)
explains = ("CRASH01", "CRASH02", "NET10", "HANG04")
confirm = (
    "nvidia-smi -q -d ECC,ROW_REMAPPER  # which GPU, how many, and whether a row waits for a reset",
)
remedy = (
    "sudo nvidia-smi --gpu-reset -i INDEX  # on a drained host: takes the spare row; costs all jobs on that GPU",
    "dcgmi diag -r 3 -i INDEX  # after the reset; costs 15 minutes on an idle GPU; a failed test is the proof for a replacement",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a GPU for counters, one for NCCL's own check, one for memory Xids."""
    for gpu in job.events(GpuState):
        if (problem := _problem(gpu)) is not None:
            text, level = problem
            yield Found(
                title=f"GPU {gpu.index}{f' ({gpu.bus_id})' if gpu.bus_id else ''}: {text}",
                evidence=(gpu.line,),
                hosts=job.hosts_of([gpu]),
                severity=level,
            )
    for counted in job.events(EccCounted):
        bad = counted.kind == "uncorrected"
        worst = f" (up to {counted.count})" if counted.count else ""
        yield Found(
            title=f"NCCL's check counts {counted.kind} memory errors on rank(s) {counted.subject}{worst}",
            evidence=(counted.line,),
            ranks=_ranks(counted.subject),
            hosts=job.hosts_of([counted]),
            severity=Severity.ERROR if bad else Severity.NOTE,
        )
    if struck := failures(job, MEMORY_ERROR):
        yield told_by(
            job,
            struck,
            f"{who(job, struck)} was stopped by an uncorrectable memory error of its GPU",
        )
    told = [e for e in job.events(Xid) if e.number in MEMORY and not e.switch]
    for bus, events in apart(told, lambda e: e.bus_id).items():
        numbers = ", ".join(sorted({str(e.number) for e in events}))
        mild = all(e.number in (63, 92) for e in events)
        yield Found(
            title=f"GPU {bus}: memory errors (Xid {numbers})",
            evidence=lines(events),
            hosts=job.hosts_of(events),
            severity=Severity.WARNING if mild else Severity.ERROR,
        )


def _problem(gpu: GpuState) -> tuple[str, Severity] | None:
    facts = gpu.facts
    if facts.get("remap_failed") == "1":
        return "no spare memory row is left (remapping failed)", Severity.ERROR
    if int(facts.get("ecc_uncorrected_volatile", "0")) > 0:
        return f"{facts['ecc_uncorrected_volatile']} uncorrected memory errors", Severity.ERROR
    if facts.get("remap_pending") == "1":
        return "a memory row waits for a reset to be replaced", Severity.WARNING
    return None


def _ranks(subject: str) -> tuple[int, ...]:
    return tuple(sorted(int(p) for p in subject.strip("{}").split(",") if p.strip().isdigit()))


fires_on = {
    "kernel": "[ 3012.114] NVRM: Xid (PCI:0000:c1:00): 48, pid=4711, name=python, DBE (double bit error) detected\n",
    "2.31+, NCCL's own check": "gpu-1:81 NCCL DIAG [INFO] ECC: uncorrected volatile errors on rank(s) {3} (worst=2) across 8 ranks in comm 0x4897ee6c86894e77\n",
    "cudaErrorECCUncorrectable": "[rank3]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n",
    "a spare row waits": "[ 3012.114] NVRM: Xid (PCI:0000:c1:00): 63, Row Remapper: New row marked for remapping, reset gpu to activate.\n",
}
silent_on = {
    "2.31+, nothing": "gpu-1:81 NCCL DIAG [OK]   ECC: no uncorrected volatile errors across 2 ranks in comm 0x4897ee6c86894e77\n",
}
