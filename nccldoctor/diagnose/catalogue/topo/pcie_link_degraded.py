"""A GPU's PCIe link has fewer lanes or a lower generation than it could have.

Traffic to the network cards, to the host and, without NVLink, between GPUs goes through it. A lost lane halves it at
once: a bad riser, dirt, or a slot wired for less. A lower generation is normal while a GPU idles, since the link clocks
down; it is a fault only under load.
"""

from collections import Counter
from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines
from nccldoctor.model.events.gpus import GpuState, TopologyFile
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "TOPO14"
name = "pcie-link-degraded"
severity = Severity.WARNING
needs = (Evidence.HOST_STATE, Evidence.GRAPH)
explains = ("PERF01", "TOPO08")
confirm = (
    "nvidia-smi -q -d PERFORMANCE | grep -A20 'GPU Link Info'; lspci -vvv -s BUS | grep -e LnkCap -e LnkSta  # again, while it works: what slot and card agreed on",
)
remedy = (
    "sudo shutdown -h now  # then reseat the card or its riser, and look at the BIOS's bifurcation; costs a visit to the rack",
    "scontrol update nodename=HOST state=drain reason=pcie  # until then; costs its GPUs",
)

BUSY_PERCENT = 20


def check(job: Job) -> Iterable[Found]:
    """One finding a GPU whose lanes or, under load, generation are below its own maximum or its siblings."""
    states = [gpu for gpu in job.events(GpuState) if gpu.pcie_width]
    usual = Counter((gpu.name, gpu.pcie_width) for gpu in states)
    for gpu in states:
        host, width = gpu.speaker.host, gpu.pcie_width or 0
        best = max(w or 0 for name, w in usual if name == gpu.name)
        if 0 < width < (gpu.pcie_width_max or 0):
            what = f"runs on {width} of {gpu.pcie_width_max} PCIe lanes"
        elif width < best:
            what = f"runs on {width} PCIe lanes, its siblings on {best}"
        elif _is_busy(gpu) and (gpu.pcie_generation or 9) < (gpu.pcie_generation_max or 0):
            what = (
                f"runs at PCIe {gpu.pcie_generation}.0 under load, of {gpu.pcie_generation_max}.0"
            )
        else:
            continue
        yield Found(
            title=f"GPU {gpu.index} ({gpu.name or '?'} {gpu.bus_id or ''}){f' on {host}' if host else ''} {what}",
            evidence=lines([gpu]),
            confidence=Confidence.HIGH if width < best else Confidence.MEDIUM,
            hosts=(host,) if host else (),
        )
    for file in job.events(TopologyFile):
        yield from _in_file(file)


def _is_busy(gpu: GpuState) -> bool:
    use = gpu.facts.get("utilization_percent", "")
    idle = "idle" in gpu.facts.get("throttle", "idle").split(",")
    return not idle and use.isdigit() and int(use) >= BUSY_PERCENT


def _in_file(file: TopologyFile) -> Iterable[Found]:
    """GPUs of NCCL's topology file whose slot has fewer lanes than most others."""
    slots = {node.path: node.attributes for node in file.nodes if node.tag == "pci"}
    widths = {}
    for node in file.nodes:
        above = slots.get(node.path[:-1], {})
        if node.tag == "gpu" and above.get("link_width", "").isdigit():
            widths[above.get("busid", "?")] = int(above["link_width"])
    usual, count = Counter(widths.values()).most_common(1)[0] if widths else (0, 0)
    for bus_id, width in sorted(widths.items()):
        if 0 < width < usual and count * 2 > len(widths):
            yield Found(
                title=f"GPU {bus_id} has {width} PCIe lanes in NCCL's topology, the other GPUs {usual}",
                evidence=(file.line,),
                confidence=Confidence.MEDIUM,
            )


_GPUS = """{"nccldoctor": "snapshot", "schema": 1, "host": "n1", "gpus": [
 {"index": 0, "name": "NVIDIA A40", "bus_id": "0000:01:00.0", "pcie_generation": 1, "pcie_generation_max": 4, "pcie_width": 16, "pcie_width_max": 16, "facts": {"throttle": "idle", "utilization_percent": "0"}},
 {"index": 1, "name": "NVIDIA A40", "bus_id": "0000:02:00.0", "pcie_generation": 1, "pcie_generation_max": 4, "pcie_width": WIDTH, "pcie_width_max": 16, "facts": {"throttle": "idle", "utilization_percent": "0"}}]}
"""

fires_on = {"eight lanes": _GPUS.replace("WIDTH", "8")}
silent_on = {"idle": _GPUS.replace("WIDTH", "16")}
