"""What is expected of links, against what healthy machines were measured to give."""

from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.diagnose.hardware import expectation
from nccldoctor.knowledge import links
from nccldoctor.model.events.state import BandwidthRow

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
    for name in ("NVIDIA H200 NVL", "NVIDIA A100-PCIE-40GB", "NVIDIA H100 PCIe", "NVIDIA L40S"):
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
