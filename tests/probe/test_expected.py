"""What is expected of links, against what healthy machines were measured to give."""

from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.diagnose.hardware import expectation
from nccldoctor.knowledge import links
from nccldoctor.model.events.measured import BandwidthRow

TABLES = Path(__file__).parents[2] / "sample_logs" / "nccl-tests-h200"


@pytest.mark.parametrize("table", sorted(TABLES.glob("*.txt")), ids=lambda p: p.stem)
def test_healthy_tables_meet_the_expectation(table: Path) -> None:
    (job,) = doctor.examine([str(table)]).jobs
    rows = [(row, expectation(job, row)) for row in job.events(BandwidthRow)]
    judged = [(row, e) for row, e in rows if e is not None]
    assert judged and all(e.guessed for _, e in judged)
    for row, expect in judged:
        assert 0.85 < row.bus_gbytes_per_second / expect.gbytes_per_second < 1.15
    assert all(e is None for row, e in rows if row.size_bytes < 1 << 22)


def test_names_that_come_in_several_forms_tell_nothing() -> None:
    assert links.sxm("NVIDIA H200") == links.nvlink(18, "4")
    assert links.sxm("NVIDIA A100-SXM4-80GB") == links.nvlink(12, "3")
    assert links.sxm("NVIDIA H800") == links.sxm("NVIDIA H800-SXM5-80GB") == links.nvlink(8, "4")
    assert links.sxm("NVIDIA A800-SXM4-80GB") == links.nvlink(8, "3")
    assert links.sxm("NVIDIA H20") == links.nvlink(18, "4")
    assert links.sxm("NVIDIA GB200") == links.sxm("NVIDIA B300 SXM6 AC") == links.nvlink(18, "5")
    for name in (
        "NVIDIA H800 PCIe",
        "NVIDIA H200 NVL",
        "NVIDIA A100-PCIE-40GB",
        "NVIDIA H100 PCIe",
        "NVIDIA L40S",
    ):
        assert links.sxm(name) is None


def test_version_from_the_speed_that_nvidia_smi_shows() -> None:
    speeds = (19.53, 25.781, 26.562, 53.125)
    assert [links.nvlink_version(s) for s in speeds] == ["1", "3", "4", "5"]


def test_an_unknown_link_expects_nothing() -> None:
    assert links.pcie(9, 16) is None
    fabric = links.nvlink(18, "4")
    assert links.expected(fabric, "Gather", 8, 1 << 30) is None
    assert links.expected(fabric, "AllReduce", 1, 1 << 30) is None
    assert links.expected(fabric, "AllReduce", 8, 1 << 10) is None


def test_links_of_amd_are_known_and_nothing_is_expected_of_them() -> None:
    fabric = links.xgmi("AMD Instinct MI300X")
    assert fabric is not None and fabric.gbytes_per_second == 7 * 48
    assert links.expected(fabric, "AllReduce", 8, 1 << 30) is None
    assert links.xgmi("AMD Instinct MI250X") is None


_DUMP = """gpu-{0}:71:71 [0] NCCL INFO ncclCommInitRank comm 0x1 rank {1} nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0xaa - Init START
gpu-{0}:71:71 [0] NCCL INFO CPU/0-0 (1/1/2)
gpu-{0}:71:71 [0] NCCL INFO + PCI[48.0] - NIC/0-9c000
gpu-{0}:71:71 [0] NCCL INFO             + NET[{2}] - NET/0-0 (0/9c000/1/{3})
gpu-{0}:71:71 [0] NCCL INFO             + NET[{2}] - NET/0-1 (0/9c001/1/{3})
"""


@pytest.mark.parametrize(
    ("shown", "speed", "total"), [("48.4", "48.437500", 96.875), ("1.2", "1.250000", None)]
)
def test_network_cards_of_a_dump(
    shown: str, speed: str, total: float | None, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_text(_DUMP.format(1, 0, shown, speed))
    (tmp_path / "b.log").write_text(_DUMP.format(2, 1, shown, speed))
    (job,) = doctor.examine([str(tmp_path)]).jobs
    row = BandwidthRow(
        line=job.all_events()[0].line, op="AllReduce", size_bytes=1 << 30, time_us=1.0,
        algorithm_gbytes_per_second=1.0, bus_gbytes_per_second=1.0, ranks=2, hosts=("gpu-1", "gpu-2"),
    )  # fmt: skip
    expect = expectation(job, row)
    assert (expect.fabric.gbytes_per_second if expect else None) == total
