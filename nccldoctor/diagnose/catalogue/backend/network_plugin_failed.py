"""A network that was asked for, or a plugin that is installed, cannot be used.

NCCL tries an external library (libnccl-net.so, libnccl-net-NAME.so for NCCL_NET_PLUGIN=NAME), then its own InfiniBand
code, then sockets. A library that is found but does not load (a missing libfabric, a symbol that another version has)
or whose start-up fails is skipped, and the job runs on the next network, far slower. Where NCCL_NET or a plugin's
tuning file names one network, nothing else is tried and the communicator fails.
Not a fault: `Could not find: libnccl-net.so` where nobody asked for a plugin, and `Failed to initialize NET plugin IB`
on a machine without InfiniBand that goes on with sockets.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.settings import named
from nccldoctor.diagnose.words import lines, some, who
from nccldoctor.knowledge.clouds import cloud_of_plugin
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import NetworkChosen
from nccldoctor.model.events.plugin import (
    PluginAsked,
    PluginBroken,
    PluginLoaded,
    PluginMissing,
    PluginRefused,
)
from nccldoctor.model.events.trouble import NoNetwork
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "BACKEND06"
name = "network-plugin-failed"
severity = Severity.ERROR
needs = (Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = (
    "BACKEND02",
    "BACKEND03",
    "INIT01",
    "INIT07",
    "NET10",
    "HANG04",
    "CRASH01",
    "PERF01",
)
confirm = (
    "echo NCCL_NET=$NCCL_NET NCCL_NET_PLUGIN=$NCCL_NET_PLUGIN; ldd $(find / -name 'libnccl-net*.so*' 2>/dev/null | head -1) | grep 'not found'  # who asks for it, and what it misses",
)
remedy = (
    "export LD_LIBRARY_PATH=/folder/of/the/plugin:$LD_LIBRARY_PATH  # in the job's own environment, on each host; costs nothing",
    "docker build --build-arg PLUGIN_VERSION=… .  # the plugin release that names your NCCL version; costs a new image; after it the log must say: Using network NAME",
    "unset NCCL_NET  # lets NCCL take the best network that works; until the plugin is mended that may be sockets, at a tenth of the speed: it costs most of the bandwidth",
)


def check(job: Job) -> Iterable[Found]:
    """One finding for a communicator without a network, one a broken plugin, one a missing plugin that was asked for."""
    none = job.events(NoNetwork)
    broken = job.events(PluginBroken)
    if none:
        yield _no_network(job, none, broken)
    else:
        yield from _broken(job, broken)
        yield from _missing(job)


def _no_network(job: Job, none: list[NoNetwork], broken: list[PluginBroken]) -> Found:
    asked = next((e.network for e in none if e.network), None)
    setting = next(iter(named(job, "NCCL_NET")), None)
    asked = asked or (setting.value if setting else None)
    refused = sorted({e.plugin for e in job.events(PluginRefused)})
    tried = f"; {', '.join(refused)} could not be initialized" if refused else ""
    what = f"network {asked}, which is all it may use" if asked else "any network"
    evidence: list[Event] = [*none[:2], *broken[:1], *job.events(PluginRefused)[:1]]
    if setting is not None:
        evidence.append(setting.event)
    return told_by(
        job, none, f"{who(job, none, 'NCCL')} cannot use {what}{tried}", evidence=lines(evidence)
    )


def _broken(job: Job, broken: list[PluginBroken]) -> Iterable[Found]:
    """Warnings: the job went on, on another network."""
    by_plugin = apart(broken, lambda event: event.plugin or "the plugin")
    used = sorted({e.network for e in job.events(NetworkChosen)})
    instead = f"; NCCL goes on with {some(used)}" if used else ""
    for plugin, events in by_plugin.items():
        yield told_by(
            job,
            events,
            f"{who(job, events)}: network plugin {plugin} is there but fails: {events[0].reason[:120]}{instead}",
            evidence=lines([*events[:3], *job.events(NetworkChosen)[:1]]),
            severity=Severity.WARNING if used else Severity.ERROR,
            remedy=_remedy(plugin),
        )


def _remedy(plugin: str) -> tuple[str, ...]:
    """What the plugin's cloud asks for comes first."""
    cloud = cloud_of_plugin(plugin)
    return ((cloud.advice,) if cloud else ()) + (*remedy, *confirm)


def _missing(job: Job) -> Iterable[Found]:
    settings = [
        s for s in named(job, "NCCL_NET_PLUGIN") if s.value.lower() not in ("", "none", "0")
    ]
    wanted: list[tuple[str, Event]] = [(s.value, s.event) for s in settings]
    wanted += [(e.plugin, e) for e in job.events(PluginAsked)]
    missing = [e for e in job.events(PluginMissing) if e.kind == "NET"]
    loaded = {p.id for e in job.events(PluginLoaded) if (p := job.process_of(e))}
    missing = [e for e in missing if (p := job.process_of(e)) is None or p.id not in loaded]
    if not wanted or not missing:
        return
    plugin = wanted[0][0]
    used = sorted({e.network for e in job.events(NetworkChosen)})
    instead = f"; NCCL goes on with {some(used)}" if used else ""
    yield told_by(
        job,
        missing,
        f"{who(job, missing)} asked for network plugin {plugin}, and it was not found{instead}",
        evidence=lines([wanted[0][1], *missing[:2]]),
        confidence=Confidence.HIGH,
        severity=Severity.WARNING if used else Severity.ERROR,
        remedy=_remedy(plugin),
    )


fires_on = {
    "2.27+": (
        "gpu-1:71:71 [0] NCCL INFO NET/IB : No device found.\n"
        "gpu-1:71:71 [0] NCCL INFO Failed to initialize NET plugin IB\n"
        "[2026-11-30 04:04:04] gpu-1:71:71 [0] plugin/net.cc:379 NCCL WARN Failed to initialize any NET plugin\n"
    ),
    "2.10-2.26": "gpu-1:71:71 [0] net.cc:300 NCCL WARN Error: network IB not found.",
    "2.21, a library of the plugin is missing": (
        "gpu-1:71:71 [0] NCCL INFO NET/Plugin: Plugin load returned 11 : libfabric.so.1: cannot open shared object file: "
        "No such file or directory when loading libnccl-net.so\n"
        "gpu-1:71:71 [0] NCCL INFO Using network Socket\n"
    ),
    "2.17-2.18, a library of the plugin is missing": (
        "gpu-1:71:71 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libfabric.so.1: cannot open shared object file\n"
    ),
    "2.28+, asked for": (
        "gpu-1:71:71 [0] NCCL INFO NCCL_NET_PLUGIN set by environment to ofi\n"
        "gpu-1:71:71 [0] NCCL INFO NET/Plugin: Could not find: ofi libnccl-net-ofi.so\n"
        "gpu-1:71:71 [0] NCCL INFO Using network Socket\n"
    ),
    "aws-ofi-nccl": (
        "gpu-1:71:71 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.9.1-aws\n"
        "gpu-1:71:71 [0] nccl_net_ofi_init:1 NCCL WARN NET/OFI Unable to find a protocol that worked.  Failing initialization.\n"
    ),
    "RCCL": "gpu-1:71:71 [0] /src/net.cc:300 NCCL WARN Error: network IB not found.",
}
silent_on = {
    "2.28, nothing asked for": (
        "gpu-1:71:71 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so\n"
        "gpu-1:71:71 [0] NCCL INFO Failed to initialize NET plugin IB\n"
        "gpu-1:71:71 [0] NCCL INFO Using network Socket\n"
    ),
    "2.17-2.18, nothing asked for": (
        "gpu-1:71:71 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object file: "
        "No such file or directory\n"
        "gpu-1:71:71 [0] NCCL INFO NET/Plugin : No plugin found, using internal implementation\n"
    ),
    "RCCL, nothing asked for": (
        "mi-1:71:71 [0] NCCL INFO NET/Plugin: No plugin found (librccl-net.so)\n"
        "mi-1:71:71 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : librccl-net.so: cannot open shared object file: "
        "No such file or directory : when loading librccl-net.so\n"
    ),
    "2.21, nothing asked for": (
        "gpu-1:71:71 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared object file: "
        "No such file or directory when loading libnccl-net.so\n"
        "gpu-1:71:71 [0] NCCL INFO Using network IB\n"
    ),
    "2.32, ATTN": (
        "[2026-11-30 04:04:04] gpu-1:71:71 [0] plugin/net.cc:379 (netInit) NCCL ATTN Failed to initialize NET plugin IB\n"
        "gpu-1:71:71 [0] NCCL INFO Using network Socket\n"
    ),
    "plugin loaded": (
        "gpu-1:71:71 [0] NCCL INFO NCCL_NET_PLUGIN set by environment to ofi\n"
        "gpu-1:71:71 [0] NCCL INFO NET/Plugin: Loaded net plugin Libfabric (v9)\n"
        "gpu-1:71:71 [0] NCCL INFO Using network Libfabric\n"
    ),
}
