"""`nccldoctor topo`: how the GPUs are linked, where the islands are, and which rank order suits them."""

from typing import Any

import click

from nccldoctor.cli.output import put
from nccldoctor.errors import DoctorError


@click.command(name="topo")
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@click.option(
    "--json", "json_file", metavar="FILE", help="Write it as JSON; - for standard output."
)
@click.option("--svg", "svg_file", metavar="FILE", help="Draw the links of the (first) host.")
def command(paths: tuple[str, ...], json_file: str | None, svg_file: str | None) -> None:
    """Show this machine's GPUs and links, or those in PATH….

    PATH… are saved outputs of `nvidia-smi topo -m`, `nvidia-smi -q`, `nvidia-smi nvlink -s`, `rocm-smi --showtopo` or `amd-smi topology`,
    NCCL's topology XML, or logs with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH.

    \b
    nccldoctor topo
    nvidia-smi topo -m | nccldoctor topo -
    nccldoctor topo nccl_topo.xml
    """
    states = _saved(paths) if paths else [_here()]
    if svg_file is not None:
        _draw(svg_file, states)
    if json_file is not None:
        _write(json_file, states)
        if json_file == "-":
            return
    click.echo("\n\n".join(_text(state) for state in states))


def _here() -> dict[str, Any]:
    import os

    from nccldoctor.collect import nvml

    state = nvml.host_state()
    if state is None:
        raise DoctorError(
            "No NVIDIA GPU answers through NVML on this machine; give a saved `nvidia-smi topo -m`, a topology XML "
            "or logs, as in: nccldoctor topo topo.txt",
            exit_code=2,
        )
    selection = os.environ.get("CUDA_VISIBLE_DEVICES")
    if selection is not None:
        state["visible"] = nvml.visible(state["gpus"], selection)
    return state


def _saved(paths: tuple[str, ...]) -> list[dict[str, Any]]:
    """One state a host, from whatever kinds of files there are."""
    from nccldoctor import doctor
    from nccldoctor.model.events.gpus import GpuState, LinkMatrix, TopologyFile
    from nccldoctor.model.events.nccl import PathLine

    digests = doctor.digest(doctor.gather(list(paths)))
    states: dict[str, dict[str, Any]] = {}
    for event in (e for digest in digests for e in digest.events):
        if not isinstance(event, (GpuState, LinkMatrix, PathLine, TopologyFile)):
            continue
        state = states.setdefault(
            event.speaker.host or "", {"host": event.speaker.host, "gpus": []}
        )
        if isinstance(event, GpuState):
            _merge(state["gpus"], event)
        elif isinstance(event, LinkMatrix):
            links = [[a, b, link] for (a, b), link in event.links.items()]
            state.setdefault("matrix", {"devices": list(event.devices), "links": links})
        elif isinstance(event, TopologyFile):
            _from_file(state, event)
        else:
            _from_paths(state, event)
    if not states:
        raise DoctorError(
            "No topology in these files: save `nvidia-smi topo -m`, or set NCCL_TOPO_DUMP_FILE=topo.xml or "
            "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH in the job"
        )
    return [states[host] for host in sorted(states)]


def _merge(gpus: list[dict[str, Any]], event: Any) -> None:
    """What several outputs say of one GPU, together; what was said first stays."""
    names = (
        "index",
        "name",
        "uuid",
        "bus_id",
        "nvlinks_active",
        "nvlinks_total",
        "nvlink_gbytes_per_second",
        "pcie_generation",
        "pcie_generation_max",
        "pcie_width",
        "pcie_width_max",
    )
    known = next((gpu for gpu in gpus if gpu["index"] == event.index), None)
    if known is None:
        known = dict.fromkeys(names)
        known["facts"] = {}
        gpus.append(known)
    for name in names:
        if known[name] is None:
            known[name] = getattr(event, name)
    known["facts"] = {**event.facts, **known["facts"]}


def _from_file(state: dict[str, Any], file: Any) -> None:
    from nccldoctor.collect import topo

    if file.root == "system" and "matrix" not in state:
        devices, links = topo.from_nodes([(n.tag, n.path, n.attributes) for n in file.nodes])
        state["matrix"] = {"devices": devices, "links": [[a, b, v] for (a, b), v in links.items()]}


def _from_paths(state: dict[str, Any], line: Any) -> None:
    from nccldoctor.collect import topo

    matrix = state.setdefault("matrix", {"devices": [], "links": []})
    if line.node.startswith("GPU") and line.node not in matrix["devices"]:
        matrix["devices"].append(line.node)
        matrix["links"] += [
            [line.node, b, kind] for b, kind in topo.from_paths(line.node, line.paths)
        ]


def _text(state: dict[str, Any]) -> str:
    from nccldoctor.collect import topo

    lines = [f"host {state['host']}"] if state.get("host") else []
    lines += _gpu_lines(state["gpus"], state.get("visible"))
    matrix = state.get("matrix")
    if matrix:
        devices = list(matrix["devices"])
        links = {(a, b): link for a, b, link in matrix["links"]}
        lines += ["", *_grid(devices, links), ""]
        islands = topo.islands(devices, links)
        if len(islands) > 1:
            named = " | ".join(" ".join(island) for island in islands)
            lines.append(f"{len(islands)} islands: {named}")
            lines.append(
                f"rank order that crosses them least: {topo.numbers(topo.rank_order(devices, links))}"
            )
        elif islands:
            kinds = sorted(
                {links.get((a, b), "?") for a in islands[0] for b in islands[0] if a != b}
            )
            lines.append(
                f"one island of {len(islands[0])} GPUs, all joined by {', '.join(kinds) or 'nothing'}"
            )
    return "\n".join(lines)


def _gpu_lines(gpus: list[dict[str, Any]], visible: list[int] | None) -> list[str]:
    lines = []
    for gpu in gpus:
        facts = gpu.get("facts", {})
        parts = [f"GPU{gpu['index']}", gpu.get("name") or "?", gpu.get("bus_id") or ""]
        if gpu.get("nvlinks_total"):
            speed = gpu.get("nvlink_gbytes_per_second")
            each = f" × {speed:g} GB/s" if speed else ""
            parts.append(f"NVLink {gpu['nvlinks_active']}/{gpu['nvlinks_total']}{each}")
        if gpu.get("pcie_generation"):
            parts.append(
                f"PCIe {gpu['pcie_generation']}.0 x{gpu['pcie_width']}"
                f" (max {gpu['pcie_generation_max']}.0 x{gpu['pcie_width_max']})"
            )
        if facts.get("numa") not in (None, "-1"):
            parts.append(f"NUMA {facts['numa']}")
        if facts.get("clock_sm_mhz"):
            parts.append(f"SM {facts['clock_sm_mhz']}/{facts.get('clock_sm_max_mhz', '?')} MHz")
        if facts.get("throttle") not in (None, "none", "idle"):
            parts.append(f"throttled: {facts['throttle']}")
        for key, word in _WORRIES.items():
            if facts.get(key) not in (None, "0", "disabled"):
                parts.append(f"{word}: {facts[key]}")
        if visible is not None and gpu["index"] not in visible:
            parts.append("hidden by CUDA_VISIBLE_DEVICES")
        lines.append("  ".join(part for part in parts if part))
    return lines


_WORRIES = {
    "ecc_uncorrected_volatile": "uncorrected ECC errors",
    "remap_pending": "row remap pending",
    "remap_failed": "row remap failed",
    "nvlink_replay_errors": "NVLink replays",
    "nvlink_recovery_errors": "NVLink recoveries",
    "nvlink_crc_errors": "NVLink CRC errors",
    "pcie_replays": "PCIe replays",
    "mig": "MIG",
}


def _grid(devices: list[str], links: dict[tuple[str, str], str]) -> list[str]:
    width = max(len(text) for text in [*devices, *links.values()]) + 2
    lines = [" " * width + "".join(f"{name:>{width}}" for name in devices)]
    for row in devices:
        cells = ["X" if row == column else links.get((row, column), "-") for column in devices]
        lines.append(f"{row:<{width}}" + "".join(f"{cell:>{width}}" for cell in cells))
    return lines


def _draw(target: str, states: list[dict[str, Any]]) -> None:
    from nccldoctor.report.svg.standalone import link_picture

    state = next((state for state in states if state.get("matrix")), None)
    matrix = state["matrix"] if state else {"devices": [], "links": []}
    links = {(a, b): link for a, b, link in matrix["links"]}
    picture = link_picture(matrix["devices"], links, state.get("host") if state else None)
    if picture is None:
        raise DoctorError("There is no link matrix of 2 to 48 devices to draw")
    put(picture + "\n", target)


def _write(target: str, states: list[dict[str, Any]]) -> None:
    """As snapshots, so that `nccldoctor parse` reads them; several hosts become a list of them."""
    import json

    bodies = [{"nccldoctor": "snapshot", "schema": 1, **state} for state in states]
    put(json.dumps(bodies[0] if len(bodies) == 1 else bodies, indent=1) + "\n", target)
