"""What NVML tells of this host's GPUs, as plain facts; pynvml is loaded here, and only when asked."""

import importlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

LINKS = 36
ANCESTORS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
NVLINK_VERSIONS = {1: "1", 2: "2", 3: "2", 4: "3", 5: "3", 6: "4", 7: "5"}
REASONS = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h), in the words that `GpuState.facts` uses."""

_SWITCH, _GPU = 2, 0


def host_state() -> dict[str, Any] | None:
    """GPUs and link matrix of this host, as `topo.json` has them; None where NVML or its GPUs are missing."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # not installed, no driver, driver and library of different versions
        return None
    try:
        return read(nvml)
    finally:
        nvml.nvmlShutdown()


def read(nvml: Any) -> dict[str, Any] | None:
    """The same from a started pynvml, or from a record of what it answered."""
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(int(nvml.nvmlDeviceGetCount()))]
    if not handles:
        return None
    gpus = [_gpu(nvml, handle, index) for index, handle in enumerate(handles)]
    return {
        "host": socket.gethostname().partition(".")[0],
        "driver": _text(_ask(nvml, "nvmlSystemGetDriverVersion")),
        "gpus": gpus,
        "matrix": _matrix(nvml, handles, gpus),
    }


def visible(gpus: Sequence[Mapping[str, Any]], selection: str | None) -> list[int]:
    """Indexes of the GPUs that CUDA sees under CUDA_VISIBLE_DEVICES, in its order; None selects all.

    A MIG instance counts as its GPU. As in CUDA, an entry that matches nothing ends the list.
    """
    if selection is None:
        return [int(gpu["index"]) for gpu in gpus]
    found = []
    for entry in (part.strip() for part in selection.split(",")):
        uuid = entry.removeprefix("MIG-").split("/")[0] if entry.startswith("MIG-GPU-") else entry
        match = next(
            (
                int(gpu["index"])
                for gpu in gpus
                if entry == str(gpu["index"])
                or (uuid.startswith("GPU-") and str(gpu.get("uuid", "")).startswith(uuid))
                or entry in gpu.get("mig_uuids", ())
            ),
            None,
        )
        if match is None:
            break
        found.append(match)
    return found


def visible_here(gpus: Sequence[Mapping[str, Any]]) -> list[int]:
    """`visible` under this process's own environment."""
    return visible(gpus, os.environ.get("CUDA_VISIBLE_DEVICES"))


def _gpu(nvml: Any, handle: Any, index: int) -> dict[str, Any]:
    def ask(name: str, *arguments: Any) -> Any:
        return _ask(nvml, name, handle, *arguments)

    pci = ask("nvmlDeviceGetPciInfo")
    bus_id = _text(pci.busId) if pci is not None else None
    links = _links(nvml, handle)
    return {
        "index": index,
        "name": _text(ask("nvmlDeviceGetName")),
        "uuid": _text(ask("nvmlDeviceGetUUID")),
        "bus_id": bus_id,
        "mig_uuids": _mig_uuids(nvml, handle),
        "nvlinks_active": sum(link["active"] for link in links),
        "nvlinks_total": len(links),
        "nvlink_gbytes_per_second": _link_speed(nvml, handle, links),
        "nvlink_version": next((link["version"] for link in links if link["version"]), None),
        "nvswitch": any(link["remote"] == _SWITCH for link in links),
        "pcie_generation": ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        "pcie_generation_max": ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        "pcie_width": ask("nvmlDeviceGetCurrPcieLinkWidth"),
        "pcie_width_max": ask("nvmlDeviceGetMaxPcieLinkWidth"),
        "facts": {k: str(v) for k, v in _facts(nvml, ask, links, bus_id).items() if v is not None},
    }


def _facts(
    nvml: Any, ask: Callable[..., Any], links: Sequence[Mapping[str, Any]], bus_id: str | None
) -> dict[str, Any]:
    memory, use = ask("nvmlDeviceGetMemoryInfo"), ask("nvmlDeviceGetUtilizationRates")
    reasons = ask("nvmlDeviceGetCurrentClocksEventReasons")
    remapped, mig = ask("nvmlDeviceGetRemappedRows"), ask("nvmlDeviceGetMigMode")
    power = ask("nvmlDeviceGetPowerUsage")
    errors = {f"nvlink_{name}_errors": _sum(links, name) for name in ("replay", "recovery", "crc")}
    return {
        "clock_sm_mhz": ask("nvmlDeviceGetClockInfo", 1),
        "clock_sm_max_mhz": ask("nvmlDeviceGetMaxClockInfo", 1),
        "throttle": None if reasons is None else _reasons(reasons),
        "utilization_percent": getattr(use, "gpu", None),
        "temperature_c": ask("nvmlDeviceGetTemperature", 0),
        "power_w": None if power is None else round(power / 1000),
        "memory_free_bytes": getattr(memory, "free", None),
        "ecc_uncorrected_volatile": ask("nvmlDeviceGetTotalEccErrors", 1, 0),
        "ecc_corrected_volatile": ask("nvmlDeviceGetTotalEccErrors", 0, 0),
        "remap_pending": remapped[2] if remapped else None,
        "remap_failed": remapped[3] if remapped else None,
        "pcie_replays": ask("nvmlDeviceGetPcieReplayCounter"),
        "mig": None if mig is None else ("enabled" if mig[0] else "disabled"),
        "numa": _numa(bus_id),
        **errors,
    }


def _links(nvml: Any, handle: Any) -> list[dict[str, Any]]:
    """The NVLinks that this GPU has, active or not; the first number that NVML refuses ends them."""
    found = []
    for link in range(LINKS):
        state = _ask(nvml, "nvmlDeviceGetNvLinkState", handle, link)
        if state is None:
            break
        counters = [
            _ask(nvml, "nvmlDeviceGetNvLinkErrorCounter", handle, link, c) for c in range(4)
        ]
        remote = _ask(nvml, "nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
        version = _ask(nvml, "nvmlDeviceGetNvLinkVersion", handle, link)
        found.append(
            {
                "link": link,
                "active": bool(state),
                "version": NVLINK_VERSIONS.get(version),
                "remote": _ask(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link),
                "remote_bus": _text(remote.busId) if remote is not None else None,
                "replay": counters[0],
                "recovery": counters[1],
                "crc": _add(counters[2], counters[3]),
            }
        )
    return found


def _link_speed(nvml: Any, handle: Any, links: Sequence[Mapping[str, Any]]) -> float | None:
    """GB/s of the slowest active link in one direction, as `nvidia-smi nvlink -s` shows it."""
    field = getattr(nvml, "NVML_FI_DEV_NVLINK_GET_SPEED", None)
    speeds = []
    for link in links:
        if field is not None and link["active"]:
            values = _ask(nvml, "nvmlDeviceGetFieldValues", handle, [(field, link["link"])])
            if values and not values[0].nvmlReturn and values[0].value.uiVal:
                speeds.append(values[0].value.uiVal / 1000)
    return min(speeds, default=None)


def _matrix(nvml: Any, handles: Sequence[Any], gpus: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`nvidia-smi topo -m` for the GPUs: NV# where links lead to the other GPU or both to a switch."""
    names = [f"GPU{gpu['index']}" for gpu in gpus]
    links = [_links(nvml, handle) for handle in handles]
    rows = []
    for a, first in enumerate(names):
        for b, second in enumerate(names):
            if a == b:
                continue
            count = _between(links[a], links[b], gpus[b]["bus_id"])
            level = _ask(nvml, "nvmlDeviceGetTopologyCommonAncestor", handles[a], handles[b])
            rows.append([first, second, f"NV{count}" if count else ANCESTORS.get(level, "?")])
    return {"devices": names, "links": rows}


def _between(
    mine: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]], bus: Any
) -> int:
    direct = sum(
        link["active"] and link["remote"] == _GPU and _same_bus(link["remote_bus"], bus)
        for link in mine
    )
    switched = [
        sum(link["active"] and link["remote"] == _SWITCH for link in side)
        for side in (mine, theirs)
    ]
    return int(direct) or min(switched)


def _same_bus(one: Any, other: Any) -> bool:
    return bool(one and other) and str(one).lower()[-10:] == str(other).lower()[-10:]


def _mig_uuids(nvml: Any, handle: Any) -> list[str]:
    count = _ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0
    instances = [_ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, i) for i in range(count)]
    uuids = [_text(_ask(nvml, "nvmlDeviceGetUUID", one)) for one in instances if one is not None]
    return [uuid for uuid in uuids if uuid]


def _numa(bus_id: str | None) -> str | None:
    """The NUMA node that the kernel gives for this device; -1 = it does not know."""
    if not bus_id:
        return None
    path = Path("/sys/bus/pci/devices") / bus_id.lower()[-12:] / "numa_node"
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _reasons(bits: int) -> str:
    return ",".join(name for bit, name in REASONS.items() if bits & bit) or "none"


def _sum(links: Sequence[Mapping[str, Any]], key: str) -> int | None:
    values = [link[key] for link in links if link[key] is not None]
    return sum(values) if values else None


def _add(*values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _ask(nvml: Any, name: str, *arguments: Any) -> Any:
    """NVML's answer, or None where this driver, GPU or pynvml has none."""
    try:
        return getattr(nvml, name)(*arguments)
    except Exception:  # NVMLError of any kind, or a binding that lacks the call
        return None
