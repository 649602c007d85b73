"""NVML's answers, folded into GPUs and a matrix: a record of 2 × H200, and the real library where there are GPUs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nccldoctor.collect import nvml
from nccldoctor.model.events.gpus import GpuState, LinkMatrix
from nccldoctor.model.source import Kind, Source
from nccldoctor.parse import snapshot

RECORD = Path(__file__).parent / "data" / "nvml.txt"


@dataclass
class _Pci:
    busId: str


class Recorded:
    """Answers as NVML did on that machine (its second GPU was alike, by nvidia-smi): scalar calls by name, `link N state version remote-bus remote-type`."""

    def __init__(self, text: str) -> None:
        self._gpus: list[dict[str, Any]] = []
        for line in text.splitlines():
            words = line.split()
            if line[:1].isdigit() and line[:2].strip().isdigit():
                self._gpus.append({"name": " ".join(words[1:-1]), "bus": words[-1], "links": []})
            elif words[:1] == ["link"]:
                self._gpus[-1]["links"].append(words[2:])
            elif words and words[0].startswith("nvmlDevice") and words[1].isdigit():
                self._gpus[-1][words[0]] = int(words[1])

    def nvmlDeviceGetCount(self) -> int:
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        return self._gpus[index]

    def nvmlDeviceGetName(self, gpu: dict[str, Any]) -> bytes:
        return str(gpu["name"]).encode()

    def nvmlDeviceGetPciInfo(self, gpu: dict[str, Any]) -> _Pci:
        return _Pci(gpu["bus"])

    def nvmlDeviceGetNvLinkState(self, gpu: dict[str, Any], link: int) -> int:
        return int(gpu["links"][link][0])

    def nvmlDeviceGetNvLinkVersion(self, gpu: dict[str, Any], link: int) -> int:
        return int(gpu["links"][link][1])

    def nvmlDeviceGetNvLinkRemotePciInfo(self, gpu: dict[str, Any], link: int) -> _Pci:
        return _Pci(gpu["links"][link][2])

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, gpu: dict[str, Any], link: int) -> int:
        return int(gpu["links"][link][3])

    def __getattr__(self, name: str) -> Any:
        return lambda gpu, *rest: gpu[name]


def _events(state: dict[str, Any]) -> tuple[Any, ...]:
    data = json.dumps({"nccldoctor": "snapshot", "schema": 1, **state}).encode()
    return snapshot.read(Source("topo.json", Kind.SNAPSHOT, len(data)), data).events


def test_record_of_two_gpus() -> None:
    state = nvml.read(Recorded(RECORD.read_text()))
    assert state is not None
    first = state["gpus"][0]
    assert (first["name"], first["bus_id"]) == ("NVIDIA H200", "00000000:00:06.0")
    assert (first["nvlinks_active"], first["nvlinks_total"], first["nvlink_version"]) == (
        18,
        18,
        "4",
    )
    assert first["nvswitch"]
    assert (first["pcie_generation"], first["pcie_width_max"]) == (5, 16)
    assert state["matrix"]["links"] == [["GPU0", "GPU1", "NV18"], ["GPU1", "GPU0", "NV18"]]
    events = _events(state)
    assert [type(e) for e in events] == [GpuState, GpuState, LinkMatrix]
    assert events[0].facts["nvlink_version"] == "4"


def test_a_link_that_is_down_counts() -> None:
    text = RECORD.read_text().replace("link 3 1 6", "link 3 0 6", 1)
    state = nvml.read(Recorded(text))
    assert state is not None
    assert [gpu["nvlinks_active"] for gpu in state["gpus"]] == [17, 18]
    assert state["matrix"]["links"][0] == ["GPU0", "GPU1", "NV17"]


@pytest.mark.gpu
def test_the_real_library() -> None:
    state = nvml.host_state()
    if state is None:
        pytest.skip("no GPU answers through NVML")
    assert all(gpu["name"] and gpu["uuid"] and gpu["bus_id"] for gpu in state["gpus"])
    assert any(isinstance(event, GpuState) for event in _events(state))
