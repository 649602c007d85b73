"""How many channels a machine usually has, by what tells of its links."""

import json
from pathlib import Path

import pytest

from nccldoctor import doctor

_LOG = """gpu-1:71:71 [0] NCCL INFO ncclCommInitRankConfig comm 0x5 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 commId 0xaa - Init START
gpu-1:71:71 [0] NCCL INFO comm 0x5 rank 0 nRanks 4 nNodes 1 localRanks 4 localRank 0 MNNVL 0
gpu-1:71:71 [0] NCCL INFO {0} coll channels, {0} collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer
"""


def _matrix(links: int) -> str:
    head = "\t" + "\t".join(f"GPU{i}" for i in range(4)) + "\tCPU Affinity\n"
    rows = (
        f"GPU{i}\t" + "\t".join(" X " if i == j else f"NV{links}" for j in range(4)) + "\t0-31\n"
        for i in range(4)
    )
    return head + "".join(rows)


def _smi(name: str) -> str:
    gpus = [{"index": index, "name": name} for index in range(4)]
    return json.dumps({"nccldoctor": "snapshot", "schema": 1, "host": "gpu-1", "gpus": gpus})


@pytest.mark.parametrize(
    ("name", "links", "channels", "few"),
    [
        ("NVIDIA A100-SXM4-80GB", 12, 4, True),
        ("NVIDIA A100-SXM4-80GB", 12, 24, False),
        ("NVIDIA A100-SXM4-80GB", 4, 8, False),  # four GPUs without a switch: all that it can
        ("NVIDIA H100 80GB HBM3", 18, 2, True),
        ("NVIDIA H800", 8, 16, False),
    ],
)
def test_by_the_names_of_gpus(
    name: str, links: int, channels: int, few: bool, tmp_path: Path
) -> None:
    (tmp_path / "rank0.log").write_text(_LOG.format(channels))
    (tmp_path / "topo.txt").write_text(_matrix(links))
    (tmp_path / "topo.json").write_text(_smi(name))
    codes = {f.code for f in doctor.examine([str(tmp_path)]).findings}
    assert ("TOPO07" in codes) is few
