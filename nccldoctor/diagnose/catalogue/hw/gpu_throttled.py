"""A GPU's clocks are held down by heat, by the power supply or by the board.

All ranks then wait for the slowest GPU. Held clocks while the GPU is idle mean nothing, and a power cap that an
administrator set (or that a hard-working GPU reaches) is only worth knowing.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.model.events.gpus import GpuState
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "HW04"
name = "gpu-throttled"
severity = Severity.WARNING
needs = (Evidence.HOST_STATE,)
explains = ("HANG03", "PERF01")
confirm = (
    "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -l 5  # while the job runs: which reason, which GPU",
)
remedy = (
    "ipmitool sensor | grep -iE 'fan|inlet|psu'  # heat: a fan, a blocked air way; power brake: a lost feed; mending costs a visit to the rack",
    "scontrol update nodename=HOST state=drain reason=throttled  # until then: one slow GPU slows all; costs the host",
)
BUSY_PERCENT = 10
_BAD = {
    "hw_slowdown": "hardware slowdown",
    "hw_thermal": "heat",
    "hw_power_brake": "the power brake",
    "sw_thermal": "heat",
}


def check(job: Job) -> Iterable[Found]:
    """One finding a GPU that is held down while it works."""
    for gpu in job.events(GpuState):
        reasons = {r.strip() for r in gpu.facts.get("throttle", "").split(",")}
        bad = sorted({_BAD[r] for r in reasons if r in _BAD})
        busy = gpu.facts.get("utilization_percent")
        idle = "idle" in reasons or (busy is not None and int(busy) < BUSY_PERCENT)
        if bad and not idle:
            clock = gpu.facts.get("clock_sm_mhz")
            top = gpu.facts.get("clock_sm_max_mhz")
            at = f" ({clock} of {top} MHz)" if clock and top else ""
            yield Found(
                title=f"GPU {gpu.index}{f' ({gpu.bus_id})' if gpu.bus_id else ''} is held down by {' and '.join(bad)}{at}",
                evidence=(gpu.line,),
                hosts=job.hosts_of([gpu]),
                confidence=Confidence.HIGH if busy is not None else Confidence.MEDIUM,
            )


_SMI = """
==============NVSMI LOG==============

Timestamp                                 : Mon Nov 30 04:00:00 2026
Driver Version                            : 580.159.04
CUDA Version                              : 13.0

Attached GPUs                             : 1
GPU 00000000:C1:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Clocks {heading} Reasons
        Idle                              : Not Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : {state}
            HW Thermal Slowdown           : {state}
            HW Power Brake Slowdown       : Not Active
        SW Thermal Slowdown               : Not Active
    Utilization
        Gpu                               : {busy} %
    Clocks
        Graphics                          : 345 MHz
        SM                                : 345 MHz
    Max Clocks
        Graphics                          : 1980 MHz
        SM                                : 1980 MHz
"""
fires_on = {
    "driver 535+": _SMI.format(heading="Event", state="Active", busy=98),
    "older drivers": _SMI.format(heading="Throttle", state="Active", busy=98),
}
silent_on = {
    "not held": _SMI.format(heading="Event", state="Not Active", busy=98),
    "idle": _SMI.format(heading="Event", state="Active", busy=0),
}
