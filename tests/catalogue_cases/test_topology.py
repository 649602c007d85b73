"""The graph of a host, from each source that tells of it, and the connections and rings over it."""

from pathlib import Path

from nccldoctor import doctor
from nccldoctor.model.job import Job

_DUMP = """\
gpu-1:71:71 [0] NCCL INFO === System : maxBw 20.0 totalBw 40.0 ===
gpu-1:71:71 [0] NCCL INFO CPU/0 (1/1/2)
gpu-1:71:71 [0] NCCL INFO + PCI[12.0] - GPU/1B000 (0)
gpu-1:71:71 [0] NCCL INFO               + NVL[20.0] - GPU/1C000
gpu-1:71:71 [0] NCCL INFO + PCI[12.0] - GPU/1C000 (1)
gpu-1:71:71 [0] NCCL INFO               + NVL[20.0] - GPU/1B000
gpu-1:71:71 [0] NCCL INFO + SYS[10.0] - CPU/1
gpu-1:71:71 [0] NCCL INFO CPU/1 (1/1/2)
gpu-1:71:71 [0] NCCL INFO + PCI[12.0] - GPU/3D000 (2)
gpu-1:71:71 [0] NCCL INFO ==========================================
gpu-1:71:71 [0] NCCL INFO GPU/1B000 :GPU/1B000 (0/5000.000000/LOC) GPU/1C000 (1/20.000000/NVL) GPU/3D000 (3/10.000000/SYS) CPU/0 (1/12.000000/PHB)
gpu-1:71:71 [0] NCCL INFO comm 0x1 rank 0 nranks 3 cudaDev 0 busId 1b000 - Init COMPLETE
gpu-1:71:71 [0] NCCL INFO Channel 00/02 :    0   1   2
gpu-1:71:71 [0] NCCL INFO Channel 00 : 0[1b000] -> 1[1c000] via P2P/IPC
gpu-1:71:71 [0] NCCL INFO Channel 01 : 0[1b000] -> 1[1c000] via P2P/IPC
gpu-1:72:72 [1] NCCL INFO comm 0x2 rank 1 nranks 3 cudaDev 1 busId 1c000 - Init COMPLETE
gpu-1:73:73 [2] NCCL INFO comm 0x3 rank 2 nranks 3 cudaDev 2 busId 3d000 - Init COMPLETE
"""

_XML = """\
<system version="1">
  <cpu numaid="0" affinity="ffff" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">
    <pci busid="0000:c1:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:c3:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:05:00.0" count="12" tclass="0x068000"/></gpu>
      </pci>
      <pci busid="0000:c4:00.0" class="0x020700"><nic><net name="mlx5_0" dev="0" speed="200000" port="1" gdr="1"/></nic></pci>
    </pci>
  </cpu>
  <cpu numaid="1">
    <pci busid="0000:e1:00.0" class="0x030200">
      <gpu dev="1" sm="80" rank="1" gdr="1"><nvlink target="0000:05:00.0" count="12" tclass="0x068000"/></gpu>
    </pci>
  </cpu>
</system>
"""


def _job(tmp_path: Path, text: str) -> Job:
    (tmp_path / "evidence").write_text(text)
    return doctor.examine([str(tmp_path / "evidence")]).jobs[0]


def test_nccl_dump_becomes_a_graph_with_ranks_and_islands(tmp_path: Path) -> None:
    (topology,) = _job(tmp_path, _DUMP).topology
    assert (topology.host, topology.origin) == ("gpu-1", "NCCL")
    assert [(g.bus_id, g.rank) for g in topology.gpus] == [("1b000", 0), ("1c000", 1), ("3d000", 2)]
    path = topology.path("GPU/3D000", "GPU/1B000")
    assert path is not None and path.kind == "SYS"
    assert [[g.rank for g in island] for island in topology.islands()] == [[0, 1], [2]]


def test_connections_and_rings_lie_over_the_graph(tmp_path: Path) -> None:
    job = _job(tmp_path, _DUMP)
    (connection,) = job.connections
    assert (connection.source, connection.target, connection.channels) == (0, 1, 2)
    assert connection.inside_host and connection.path is not None
    assert connection.path.kind == "NVL"
    (ring,) = job.rings
    assert ring.ranks == (0, 1, 2)
    assert ring.crossings({0: 0, 1: 0, 2: 1}) == 2


def test_topology_file(tmp_path: Path) -> None:
    (topology,) = _job(tmp_path, _XML).topology
    assert topology.origin == "topology file" and topology.has_nvswitch
    a, b = topology.gpus
    (nic,) = topology.nics
    assert nic.name == "mlx5_0"
    kinds = [p.kind for p in (topology.path(a.id, nic.id), topology.path(b.id, nic.id)) if p]
    assert kinds == ["PIX", "SYS"]
    assert topology.nvlinked(a.id, b.id)


def test_broken_xml_is_an_input_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "topo.xml").write_text(_XML[:300])
    report = doctor.examine([str(tmp_path / "topo.xml")])
    assert "no XML" in report.inputs[0].note


def test_a_fault_on_many_hosts_is_one_finding(tmp_path: Path) -> None:
    host = (
        "gpu-{0}:7{0}:71 [0] NCCL INFO CPU/0 (1/1/2)\n"
        "gpu-{0}:7{0}:71 [0] NCCL INFO + PCI[12.0] - GPU/1B000\n"
        "gpu-{0}:7{0}:71 [0] NCCL INFO               + NVL[20.0] - GPU/1C000\n"
        "gpu-{0}:7{0}:71 [0] NCCL INFO + PCI[12.0] - GPU/1C000\n"
        "gpu-{0}:7{0}:71 [0] NCCL INFO comm 0x1 rank {1} nranks 6 cudaDev 0 busId 1b000 - Init COMPLETE\n"
        "gpu-{0}:8{0}:72 [1] NCCL INFO comm 0x2 rank {2} nranks 6 cudaDev 1 busId 1c000 - Init COMPLETE\n"
        "gpu-{0}:7{0}:71 [0] NCCL INFO Channel 00 : {1}[1b000] -> {2}[1c000] via SHM/direct/direct\n"
    )
    (tmp_path / "log").write_text("".join(host.format(h, 2 * h, 2 * h + 1) for h in range(3)))
    found = [f for f in doctor.examine([str(tmp_path / "log")]).findings if f.code == "TOPO01"]
    assert len(found) == 1
    assert found[0].ranks == (0, 1, 2, 3, 4, 5)
    assert found[0].hosts == ("gpu-0", "gpu-1", "gpu-2")
    assert len(found[0].evidence) == 3
