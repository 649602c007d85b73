"""A transport is turned off by a variable although the machine has it.

NCCL_P2P_DISABLE, NCCL_SHM_DISABLE and NCCL_IB_DISABLE are often set to get a hang out of the way, and stay. The job
then works, slowly. Where nothing shows that the machine has the hardware, this is only a note: NCCL_IB_DISABLE on one
host, or NCCL_NVLS_ENABLE=0, may cost nothing.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.settings import (
    Setting,
    number,
    one_machine,
    settings,
    several_hosts,
)
from nccldoctor.diagnose.words import lines, who
from nccldoctor.knowledge.scopes import SWITCHES
from nccldoctor.model.event import Event
from nccldoctor.model.events.gpus import GpuState, LinkMatrix
from nccldoctor.model.events.nccl import CommShape, Edge, NetDevices, PathLine, TopologyLine
from nccldoctor.model.events.trouble import P2pDisabled
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "ENV06"
name = "transport-disabled-by-env"
severity = Severity.WARNING
needs = (Evidence.ENVIRONMENT,)
explains = ("TOPO01", "TOPO03", "TOPO05", "TOPO07", "BACKEND02", "ENV08", "PERF01")
confirm = (
    "nccldoctor topo; nccldoctor probe  # is the hardware there, and what does the transport give",
)
remedy = (
    "unset NCCL_P2P_DISABLE NCCL_SHM_DISABLE NCCL_IB_DISABLE  # costs nothing unless the hang that they hid comes back: then that is the fault to mend",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a variable; a warning where the job's own evidence shows the hardware or its absence in use."""
    all_settings = settings(job)
    for variable, switch in SWITCHES.items():
        found = [s for s in all_settings if s.variable == variable and _turns_off(s)]
        if not found:
            continue
        proof = _hardware(job, variable)
        events = [s.event for s in found]
        yield told_by(
            job,
            events,
            f"{who(job, events, 'The job')}: {variable}={found[0].value} turns off {switch.what}: {switch.cost}",
            evidence=lines([*events[:2], *proof[:2]]),
            severity=Severity.WARNING if proof else Severity.NOTE,
            confidence=Confidence.HIGH if proof else Confidence.MEDIUM,
            remedy=(
                f"unset {variable}  # costs nothing unless the job then hangs: that fault is the one to mend",
            ),
        )


def _turns_off(setting: Setting) -> bool:
    value = number(setting)
    if setting.variable == "NCCL_NET":
        return setting.value.lower() == "socket"
    if setting.variable.endswith("_LEVEL"):
        return value == 0 or setting.value.upper() == "LOC"
    if setting.variable.endswith("_ENABLE"):
        return value == 0
    return value is not None and value != 0


def _hardware(job: Job, variable: str) -> list[Event]:
    """What shows that the machine has what the variable turns off, or that something slower is used for it."""
    if variable.startswith("NCCL_P2P_"):
        return [*_nvlink(job), *_through_shm(job)]
    if variable in ("NCCL_IB_DISABLE", "NCCL_NET"):
        devices = [e for e in job.events(NetDevices) if e.network == "IB" and "[0]" in e.devices]
        across = [e for e in job.events(Edge) if e.detail.startswith("Socket")]
        return [*devices, *across] if several_hosts(job) and not one_machine(job) else []
    if variable == "NCCL_NET_GDR_LEVEL":
        return [e for e in job.events(Edge) if e.transport == "NET" and e.detail.startswith("IB")]
    if variable == "NCCL_SHM_DISABLE":
        local = {e.speaker.host for e in job.events(CommShape) if e.hosts == 1}
        return [e for e in job.events(Edge) if e.transport == "NET" and e.speaker.host in local]
    return []


def _nvlink(job: Job) -> list[Event]:
    found: list[Event] = [e for e in job.events(TopologyLine) if e.link == "NVL"]
    found += [e for e in job.events(PathLine) if "/NVL)" in e.paths]
    found += [
        e for e in job.events(LinkMatrix) if any(v.startswith("NV") for v in e.links.values())
    ]
    found += [e for e in job.events(GpuState) if e.nvlinks_active]
    found += [e for e in job.events(P2pDisabled) if e.nvlink]
    return found


def _through_shm(job: Job) -> list[Event]:
    return [e for e in job.events(Edge) if e.transport == "SHM"]


_H = "gpu-1:71:71 [0] NCCL INFO "
fires_on = {
    "2.23+": _H
    + "NCCL_P2P_DISABLE set by environment to 1\n"
    + _H
    + "              + NVL[370.8] - NVS/0-0\n",
    "2.12": _H
    + "NCCL_P2P_DISABLE set by environment to 1.\n"
    + _H
    + "Channel 00 : 0[1b000] -> 1[3d000] via SHM/direct/direct\n",
    "two hosts": _H
    + "NCCL_IB_DISABLE set by environment to 1.\n"
    + _H
    + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n"
    + "gpu-2:81:81 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/Socket/0\n",
    "sockets forced": "NCCL_NET=Socket\n"
    + _H
    + "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n"
    + "gpu-2:81:81 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [receive] via NET/Socket/0\n",
    "2.26, GPUDirect off": _H
    + "NCCL_NET_GDR_LEVEL set by environment to LOC\n"
    + _H
    + "Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0\n",
}
silent_on = {
    "a level that allows P2P": _H
    + "NCCL_P2P_LEVEL set by environment to NVL\n"
    + _H
    + "Channel 00 : 0[1b000] -> 1[3d000] via SHM/direct/direct\n",
    "on": _H
    + "NCCL_P2P_DISABLE set by environment to 0\n"
    + _H
    + "NCCL_NVLS_ENABLE set by environment to 2.\n",
}
