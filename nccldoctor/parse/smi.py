"""Reads what nvidia-smi, rocm-smi and amd-smi print (`topo -m`, `-q`, `nvlink -s`, the table) and the snapshot's GPUs."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nccldoctor.grammars.listings import matrix_row
from nccldoctor.model.digest import Coverage, Digest
from nccldoctor.model.event import Event
from nccldoctor.model.events.gpus import GpuState, LinkMatrix
from nccldoctor.model.source import NOBODY, Line, Source, Speaker
from nccldoctor.parse import amd_smi

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LONGEST_ROW = 4096
_DEVICE = re.compile(r"^(?:GPU|NIC|mlx)[\w-]*$")
_NVLINK_GPU = re.compile(r"^GPU (\d{1,6}): (.{1,100}?) \(UUID: ([\w-]+)\)")
_NVLINK = re.compile(r"^\s+Link (\d{1,4}): (?:(\d{1,6}(?:\.\d{1,6})?) GB/s|<?inactive>?)")
_TABLE_GPU = re.compile(
    r"^\|\s+(\d{1,6})\s+(\S.{1,40}?)\s+(?:On|Off|N/A)\s+\|\s+([0-9A-Fa-f:.]{7,16})\s"
)
_VERBOSE_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$")
_KEY = re.compile(r"^( +)(\S.{0,80}?)\s*(?: : (.*))?$")


_REASONS = {
    "Idle": "idle",
    "Applications Clocks Setting": "application_clocks",
    "SW Power Cap": "sw_power_cap",
    "HW Slowdown": "hw_slowdown",
    "HW Slowdown/HW Thermal Slowdown": "hw_thermal",
    "HW Slowdown/HW Power Brake Slowdown": "hw_power_brake",
    "Sync Boost": "sync_boost",
    "SW Thermal Slowdown": "sw_thermal",
}


def read(source: Source, data: bytes) -> Digest:
    """The GPUs and the link matrices of one saved output, or of several one after the other."""
    lines = [
        Line(source.path, number, _COLOUR.sub("", raw[:4096].decode("utf-8", "replace")))
        for number, raw in enumerate(data.splitlines(), 1)
    ]
    events: list[Event] = [
        *_matrices(lines),
        *amd_smi.matrices(lines),
        *_nvlinks(lines),
        *_verbose(lines),
        *_table(lines),
    ]
    events.sort(key=lambda event: event.line.number)
    note = "" if events else "no GPU and no link matrix in it"
    lined = replace(source, lines=len(lines), note=note)
    return Digest(lined, tuple(events), (), Coverage(lines=len(lines)))


def _header(text: str) -> list[str] | None:
    """The device names of a matrix's header line, or None."""
    words = text.split()
    names = []
    for word in words:
        if not _DEVICE.match(word):
            break
        names.append(word)
    good = names and names[0].upper().startswith("GPU") and not text.startswith("GPU")
    return names if good and len(set(names)) == len(names) else None


def _matrices(lines: Sequence[Line]) -> Iterable[LinkMatrix]:
    devices: list[str] | None = None
    start = lines[0] if lines else Line("", 0, "")
    links: dict[tuple[str, str], str] = {}
    for line in [*lines, Line("", 0, "")]:
        row = matrix_row(line.text[:LONGEST_ROW]) if devices else None
        if devices and row and row[0] in devices and len(row[1]) >= len(devices):
            for name, link in zip(devices, row[1], strict=False):
                if name != row[0]:
                    links[row[0], name] = link
            continue
        if devices and links:
            yield LinkMatrix(line=start, speaker=NOBODY, devices=tuple(devices), links=links)
            devices, links = None, {}
        if found := _header(line.text):
            devices, links, start = found, {}, line


def _nvlinks(lines: Sequence[Line]) -> Iterable[GpuState]:
    current: tuple[Line, re.Match[str]] | None = None
    speeds: list[float | None] = []
    for line in [*lines, Line("", 0, "GPU")]:
        gpu, link = _NVLINK_GPU.match(line.text), _NVLINK.match(line.text)
        if link:
            speeds.append(float(link[2]) if link[2] else None)
        elif current and (gpu or not link):
            if speeds:
                yield _linked(*current, speeds)
            current, speeds = None, []
        if gpu:
            current = (line, gpu)


def _linked(line: Line, gpu: re.Match[str], speeds: Sequence[float | None]) -> GpuState:
    active = [speed for speed in speeds if speed]
    return GpuState(
        line=line,
        index=int(gpu[1]),
        name=gpu[2],
        uuid=gpu[3],
        nvlinks_active=len(active),
        nvlinks_total=len(speeds),
        nvlink_gbytes_per_second=min(active, default=None),
    )


def _table(lines: Sequence[Line]) -> Iterable[GpuState]:
    for line in lines:
        if gpu := _TABLE_GPU.match(line.text):
            yield GpuState(line=line, index=int(gpu[1]), name=gpu[2], bus_id=gpu[3])


def _verbose(lines: Sequence[Line]) -> Iterable[GpuState]:
    index = -1
    start: Line | None = None
    values: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    driver = ""
    for line in [*lines, Line("", 0, "GPU 0000:00:00.0")]:
        if line.text.startswith("Driver Version "):
            driver = line.text.partition(":")[2].strip()
        if _VERBOSE_GPU.match(line.text):
            if start is not None:
                yield _queried(start, index, values, driver)
            start, values, path, index = line, {}, [], index + 1
        elif start is not None and (key := _KEY.match(line.text)):
            depth = len(key[1])
            path = [step for step in path if step[0] < depth]
            path.append((depth, key[2].strip()))
            if key[3] is not None:
                values["/".join(name for _, name in path)] = key[3].strip()


def _queried(line: Line, index: int, values: Mapping[str, str], driver: str) -> GpuState:
    def get(key: str) -> str | None:
        value = values.get(key)
        return None if value in (None, "N/A", "") else value

    facts = {
        "driver": driver or None,
        "clock_sm_mhz": _number(get("Clocks/SM")),
        "clock_sm_max_mhz": _number(get("Max Clocks/SM")),
        "throttle": _throttle(values),
        "utilization_percent": _number(get("Utilization/GPU") or get("Utilization/Gpu")),
        "temperature_c": _number(get("Temperature/GPU Current Temp")),
        "performance_state": get("Performance State"),
        "ecc_uncorrected_volatile": _total(values, "ECC Errors/Volatile/", "Uncorrectable"),
        "ecc_corrected_volatile": _total(values, "ECC Errors/Volatile/", " Correctable"),
        "remap_pending": _yes(get("Remapped Rows/Pending")),
        "remap_failed": _yes(get("Remapped Rows/Remapping Failure Occurred")),
        "pcie_replays": _number(get("PCI/Replays Since Reset")),
        "mig": (get("MIG Mode/Current") or "").lower() or None,
        "fabric_state": get("Fabric/State"),
        "recovery_action": get("GPU Recovery Action"),
    }
    generation, width = "PCI/GPU Link Info/PCIe Generation/", "PCI/GPU Link Info/Link Width/"
    return GpuState(
        line=line,
        index=index,
        name=get("Product Name"),
        uuid=get("GPU UUID"),
        bus_id=line.text.split()[1],
        pcie_generation=_int(get(generation + "Current")),
        pcie_generation_max=_int(get(generation + "Max")),
        pcie_width=_int(get(width + "Current")),
        pcie_width_max=_int(get(width + "Max")),
        facts={key: value for key, value in facts.items() if value is not None},
    )


def _throttle(values: Mapping[str, str]) -> str | None:
    """The active reasons, under the old heading (Throttle) or the new one (Event)."""
    seen, active = False, []
    for heading in ("Clocks Event Reasons/", "Clocks Throttle Reasons/"):
        for key, name in _REASONS.items():
            value = values.get(heading + key)
            seen = seen or value is not None
            if value == "Active":
                active.append(name)
    return (",".join(active) or "none") if seen else None


def _total(values: Mapping[str, str], under: str, word: str) -> str | None:
    found = [
        int(v)
        for k, v in values.items()
        if under in k and word in k and v.isdecimal() and len(v) < 16
    ]
    return str(sum(found)) if found else None


def _number(text: str | None) -> str | None:
    match = re.match(r"-?\d{1,15}", text or "")
    return match[0] if match else None


def _int(text: str | None) -> int | None:
    number = _number(text)
    return None if number is None else int(number)


def _yes(text: str | None) -> str | None:
    return None if text is None else ("1" if text.lower().startswith("y") else "0")


def gpus(source: Source, body: Mapping[str, Any], section: Any) -> Iterable[Event]:
    """The events of a snapshot's `gpus` section."""
    for gpu in section:
        facts = {str(k): str(v)[:200] for k, v in sorted(gpu.get("facts", {}).items())}
        if gpu.get("nvlink_version"):
            facts["nvlink_version"] = str(gpu["nvlink_version"])[:8]
        links = f", {gpu.get('nvlinks_active')}/{gpu.get('nvlinks_total')} NVLinks"
        pcie = f", PCIe {gpu.get('pcie_generation')} x{gpu.get('pcie_width')}"
        yield GpuState(
            line=Line(source.path, 0, f"GPU {gpu['index']}: {gpu.get('name')}{links}{pcie}"[:2000]),
            speaker=Speaker(host=_text(body.get("host"))),
            index=int(gpu["index"]),
            name=_text(gpu.get("name")),
            uuid=_text(gpu.get("uuid")),
            bus_id=_text(gpu.get("bus_id")),
            nvlink_gbytes_per_second=_as(float, gpu.get("nvlink_gbytes_per_second")),
            **{key: _as(int, gpu.get(key)) for key in _COUNTS},
            facts=facts,
        )


_COUNTS = (
    "nvlinks_active",
    "nvlinks_total",
    "pcie_generation",
    "pcie_generation_max",
    "pcie_width",
    "pcie_width_max",
)


def matrix(source: Source, body: Mapping[str, Any], section: Any) -> Iterable[Event]:
    """The event of a snapshot's `matrix` section."""
    links = {(str(a), str(b)): str(link)[:16] for a, b, link in section["links"]}
    yield LinkMatrix(
        line=Line(source.path, 0, " ".join(f"{a}-{b} {v}" for (a, b), v in links.items())[:2000]),
        speaker=Speaker(host=_text(body.get("host"))),
        devices=tuple(str(name) for name in section["devices"]),
        links=links,
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)[:256]


def _as(kind: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else kind(value)
