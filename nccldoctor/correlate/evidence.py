"""Which kinds of evidence a job has, told by its events; what is absent cannot be called fine."""

from collections.abc import Iterable, Mapping, Sequence

from nccldoctor.model.digest import Digest
from nccldoctor.model.event import Event
from nccldoctor.model.events import (
    fabric,
    gpus,
    machine,
    measured,
    nccl,
    platform,
    ras,
    recorder,
    torch,
    trouble,
    watched,
)
from nccldoctor.model.job import Evidence
from nccldoctor.model.source import Kind

_TOLD_BY: Mapping[type[Event], tuple[Evidence, ...]] = {
    nccl.CommStart: (Evidence.INFO_LOG,),
    nccl.CommComplete: (Evidence.INFO_LOG,),
    nccl.DriverVersion: (Evidence.INFO_LOG,),
    nccl.InitTimings: (Evidence.INFO_LOG,),
    platform.AffinityIgnored: (Evidence.INFO_LOG,),
    platform.NotPci: (Evidence.INFO_LOG,),
    nccl.EnvironmentSet: (Evidence.ENVIRONMENT,),
    nccl.BootstrapInterface: (Evidence.INFO_LOG, Evidence.NETWORK),
    nccl.NetworkChosen: (Evidence.INFO_LOG, Evidence.NETWORK),
    nccl.NetDevices: (Evidence.NETWORK,),
    nccl.Edge: (Evidence.INFO_LOG,),
    nccl.GraphFound: (Evidence.GRAPH,),
    nccl.TopologyLine: (Evidence.GRAPH,),
    nccl.PathLine: (Evidence.GRAPH,),
    nccl.AlgorithmChosen: (Evidence.TUNING,),
    gpus.TopologyFile: (Evidence.GRAPH,),
    recorder.RecorderDump: (Evidence.RECORDER,),
    ras.RasSnapshot: (Evidence.RAS,),
    measured.BandwidthRow: (Evidence.BANDWIDTH,),
    measured.ProbeFailure: (Evidence.BANDWIDTH,),
    measured.ProbeLever: (Evidence.BANDWIDTH,),
    watched.LeverTried: (Evidence.LAUNCHER,),
    gpus.GpuState: (Evidence.HOST_STATE,),
    gpus.LinkMatrix: (Evidence.HOST_STATE,),
    machine.Xid: (Evidence.KERNEL,),
    watched.HangObserved: (Evidence.WATCHDOG,),
    machine.OomKilled: (Evidence.KERNEL,),
    watched.ProcessEnvironment: (Evidence.ENVIRONMENT,),
    machine.ConnectTimed: (Evidence.INFO_LOG,),
    machine.VariableShown: (Evidence.ENVIRONMENT,),
    machine.GpuLost: (Evidence.KERNEL,),
    machine.EccCounted: (Evidence.HOST_STATE,),
    machine.NvlinkFault: (Evidence.HOST_STATE,),
    machine.Throttled: (Evidence.HOST_STATE,),
    torch.WatchdogTimeout: (Evidence.WATCHDOG,),
    torch.GroupProgress: (Evidence.WATCHDOG,),
    torch.DumpSignal: (Evidence.WATCHDOG,),
    torch.WatchdogStuck: (Evidence.WATCHDOG,),
    torch.FingerprintMismatch: (Evidence.WATCHDOG,),
    trouble.OddCollective: (Evidence.WATCHDOG,),
    torch.Stack: (Evidence.STACKS,),
    torch.ProcessEnded: (Evidence.LAUNCHER,),
}

_COMPLAINTS = (trouble.__name__, fabric.__name__)
"""Only NCCL and RCCL say these, also where somebody cut the header of the line off."""


def kinds(digests: Sequence[Digest], events: Iterable[Event]) -> frozenset[Evidence]:
    """The kinds of evidence in these digests."""
    found: set[Evidence] = set()
    for event in events:
        found.update(_TOLD_BY.get(type(event), ()))
        if isinstance(event, nccl.Diagnostic) and event.check == "NCCL environment":
            found.add(Evidence.ENVIRONMENT)
    if any(type(e).__module__ in _COMPLAINTS for d in digests for e in d.events):
        found.add(Evidence.NCCL_LOG)
    for digest in digests:
        if digest.coverage.records:
            found.add(Evidence.NCCL_LOG)
        if digest.calls:
            found.add(Evidence.CALLS)
        if digest.source.kind is Kind.LOG and digest.coverage.records < digest.coverage.lines:
            found.add(Evidence.OUTPUT)
    return frozenset(found)
