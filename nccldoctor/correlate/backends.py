"""What each rank uses for its traffic between hosts, and why: asked for, found, refused; ranks alike are one row."""

import re
from collections.abc import Iterable
from typing import Any

from nccldoctor.model.event import Event
from nccldoctor.model.events.fabric import DeviceUnusable, VerbsMissing
from nccldoctor.model.events.machine import VariableShown
from nccldoctor.model.events.nccl import EnvironmentSet, NetDevices, NetworkChosen
from nccldoctor.model.events.plugin import (
    PluginAsked,
    PluginBroken,
    PluginLoaded,
    PluginMissing,
    PluginRefused,
)
from nccldoctor.model.events.trouble import NoNetwork
from nccldoctor.model.job import Job

_ASKING = frozenset(
    {
        "NCCL_NET",
        "NCCL_NET_PLUGIN",
        "NCCL_IB_DISABLE",
        "NCCL_IB_HCA",
        "NCCL_SOCKET_IFNAME",
        "FI_PROVIDER",
    }
)
_DEVICE = re.compile(r"\[\d+\]([^\s:]+)")


def backends(job: Job) -> list[dict[str, Any]]:
    """One row for all processes with the same network for the same reasons; those of one row first, by their ranks.

    `uses` are the networks that NCCL chose, empty where it never said; the other lists are short texts.
    """
    rows: dict[int, dict[str, list[str]]] = {}
    for kind, event, text in _told(job):
        process = job.process_of(event)
        if process is not None:
            row = rows.setdefault(
                process.id, {k: [] for k in ("uses", "asked", "found", "refused")}
            )
            if text not in row[kind]:
                row[kind].append(text)
    alike: dict[tuple[tuple[str, ...], ...], list[int]] = {}
    for process_id, row in sorted(rows.items()):
        alike.setdefault(tuple(tuple(texts) for texts in row.values()), []).append(process_id)
    found = []
    for (uses, asked, had, refused), processes in alike.items():
        members = [job.processes[p] for p in processes]
        found.append(
            {
                "uses": list(uses),
                "asked": list(asked),
                "found": list(had),
                "refused": list(refused),
                "ranks": sorted(p.rank for p in members if p.rank is not None),
                "hosts": sorted({p.host for p in members if p.host}),
            }
        )
    return sorted(found, key=lambda row: (row["ranks"] or [1 << 30], row["hosts"]))


def _told(job: Job) -> Iterable[tuple[str, Event, str]]:
    for chosen in job.events(NetworkChosen):
        yield "uses", chosen, chosen.network
    settings: list[EnvironmentSet | VariableShown] = [*job.events(EnvironmentSet)]
    for setting in [*settings, *job.events(VariableShown)]:
        if setting.variable in _ASKING:
            yield "asked", setting, f"{setting.variable}={setting.value}"
    for asked in job.events(PluginAsked):
        yield "asked", asked, f"plugin {asked.plugin}"
    for loaded in job.events(PluginLoaded):
        yield "found", loaded, f"plugin {loaded.plugin}"
    for devices in job.events(NetDevices):
        names = _DEVICE.findall(devices.devices.partition(";")[0])
        if names:
            yield "found", devices, f"{devices.network}: {', '.join(dict.fromkeys(names))}"
        else:
            yield "refused", devices, f"{devices.network}: no device"
    for missing in job.events(VerbsMissing):
        yield "refused", missing, "IB: libibverbs is not there"
    for unusable in job.events(DeviceUnusable):
        yield "refused", unusable, f"IB: {unusable.device or 'a device'} cannot be opened"
    for absent in job.events(PluginMissing):
        if absent.kind == "NET":
            yield "refused", absent, f"plugin {absent.library} is not there"
    for broken in job.events(PluginBroken):
        yield (
            "refused",
            broken,
            f"plugin {broken.plugin or ''} fails: {broken.reason}".replace("  ", " "),
        )
    for refused in job.events(PluginRefused):
        yield "refused", refused, f"{refused.plugin} does not start"
    for none in job.events(NoNetwork):
        yield (
            "refused",
            none,
            f"network {none.network} is not there" if none.network else "no network starts",
        )
