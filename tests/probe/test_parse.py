"""Reading nvidia-smi, rocm-smi and nccl-tests, as they really come out."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nccldoctor.evidence.kinds import kind_of
from nccldoctor.model.events.gpus import GpuState, LinkMatrix
from nccldoctor.model.events.measured import BandwidthRow
from nccldoctor.model.source import Kind, Source
from nccldoctor.parse import bandwidth, logs, smi, snapshot

DATA = Path(__file__).parent / "data"
TABLES = Path(__file__).parents[2] / "sample_logs" / "nccl-tests-h200"


def _smi(data: bytes) -> list[object]:
    assert kind_of(data) is Kind.SMI
    return list(smi.read(Source("smi.txt", Kind.SMI, len(data)), data).events)


def test_matrix_with_underlined_header() -> None:
    data = (DATA / "topo-m.txt").read_bytes()
    assert b"\x1b[4m" in data
    (matrix,) = _smi(data)
    assert isinstance(matrix, LinkMatrix)
    assert matrix.devices == ("GPU0", "GPU1")
    assert matrix.links["GPU0", "GPU1"] == "NV18"


def test_matrix_with_network_cards() -> None:
    text = (
        "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
        "GPU0\t X \tNV4\tPXB\t0-63\t0\n"
        "GPU1\tNV4\t X \tSYS\t0-63\t0\n"
        "NIC0\tPXB\tSYS\t X \t\t\n\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
    )
    (matrix,) = _smi(text.encode())
    assert isinstance(matrix, LinkMatrix)
    assert matrix.devices == ("GPU0", "GPU1", "NIC0")
    assert matrix.links["GPU1", "NIC0"] == "SYS"


def test_rocm_link_types() -> None:
    text = (
        "============================ ROCm System Management Interface ============================\n"
        "=============================== Link Type between two GPUs ===============================\n"
        "       GPU0         GPU1         \n"
        "GPU0   0            XGMI         \n"
        "GPU1   XGMI         0            \n"
        "================================== End of ROCm SMI Log ===================================\n"
    )
    matrices = [e for e in _smi((text + "\n").encode()) if isinstance(e, LinkMatrix)]
    assert matrices[0].links["GPU0", "GPU1"] == "XGMI"


def test_link_types_of_amd_smi() -> None:
    text = """ACCESS TABLE:
             0000:0c:00.0 0000:22:00.0 0000:38:00.0
0000:0c:00.0 ENABLED      ENABLED      DISABLED
0000:22:00.0 ENABLED      ENABLED      DISABLED
0000:38:00.0 DISABLED     DISABLED     ENABLED

LINK TYPE TABLE:
             0000:0c:00.0 0000:22:00.0 0000:38:00.0
0000:0c:00.0 SELF         XGMI         PCIE
0000:22:00.0 XGMI         SELF         PCIE
0000:38:00.0 PCIE         PCIE         SELF
"""
    (matrix,) = _smi(text.encode())
    assert isinstance(matrix, LinkMatrix)
    assert matrix.devices == ("GPU0", "GPU1", "GPU2")
    assert matrix.links["GPU0", "GPU1"] == "XGMI" and matrix.links["GPU2", "GPU0"] == "PCIE"


def test_verbose_query() -> None:
    first, second = _smi((DATA / "nvidia-smi-q.txt").read_bytes())
    assert isinstance(first, GpuState) and isinstance(second, GpuState)
    assert (first.name, first.bus_id, second.index) == ("NVIDIA H200", "00000000:00:06.0", 1)
    assert (first.pcie_generation, first.pcie_width, first.pcie_width_max) == (5, 16, 16)
    assert first.facts["throttle"] == "idle"
    assert first.facts["ecc_uncorrected_volatile"] == "0"
    assert first.facts["fabric_state"] == "Completed"


def test_active_links() -> None:
    gpus = _smi((DATA / "nvlink-s.txt").read_bytes())
    assert [(g.nvlinks_active, g.nvlinks_total) for g in gpus] == [(18, 18)] * 2  # type: ignore[attr-defined]
    assert gpus[0].nvlink_gbytes_per_second == 26.562  # type: ignore[attr-defined]


def test_a_page_about_nvidia_smi_is_no_output_of_it() -> None:
    assert kind_of(b"Run nvidia-smi topo -m and look for NV18 between GPU0 and GPU1.\n") is Kind.LOG


@pytest.mark.parametrize("table", sorted(TABLES.glob("*.txt")), ids=lambda p: p.stem)
def test_tables_read_alike_alone_and_within_logs(table: Path) -> None:
    data = table.read_bytes()
    source = Source("t", Kind.LOG, len(data))
    alone = [e for e in bandwidth.read(source, data).events if isinstance(e, BandwidthRow)]
    among = [e for e in logs.read(source, io.BytesIO(data)).events if isinstance(e, BandwidthRow)]
    assert alone == among
    assert [row.size_bytes for row in alone] == [1 << e for e in (10, 14, 18, 22, 26, 30)]
    assert {row.ranks for row in alone} == {2}
    assert all(row.wrong == 0 for row in alone)


def test_a_row_torn_by_log_lines_is_put_together() -> None:
    text = (
        "# nccl-tests version 2.19.6\n# Collective test starting: all_reduce_perf\n"
        "#  Rank  0 Group  0 Pid   1459 on gpu-node-01 device  0 [0000:00:06] NVIDIA H200\n"
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong\n"
        "    67108864      16777216     float     sum      -1gpu-node-01:1459:1459 [0] NCCL INFO AllReduce: 67108864 "
        "Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}\n"
        "gpu-node-01:1459:1459 [0] NCCL INFO comm 0x55 rank 0 nranks 2\n"
        "   250.46  267.95  267.95       3\n"
        "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 267.95\n"
        "   250.46  267.95  267.95       3\n"
    )
    events = logs.read(Source("t", Kind.LOG, 1), io.BytesIO(text.encode())).events
    (row,) = [e for e in events if isinstance(e, BandwidthRow)]
    assert (row.size_bytes, row.bus_gbytes_per_second, row.wrong) == (67108864, 267.95, 3)


_PIECES = st.sampled_from(
    [
        "# nccl-tests version 2.19.6\n",
        "# Collective test starting: all_reduce_perf\n",
        "#  size time algbw busbw\n",
        " 1024 256 float sum -1 13.71 0.07 0.07 0 13.43 0.08 0.08 0\n",
        " 1024 256 float sum -1 1e99 1.2.3 .. e N/A\n",
        "9" * 40 + " 1 float sum -1 1 1 1 1\n",
        "\tGPU0\tGPU1\tCPU\n",
        "GPU0\t X \tNV18\n",
        "GPU 0: A (UUID: GPU-1)\n",
        "\t Link 0: 26.562 GB/s\n",
        "\t Link 1: <inactive>\n",
        "==============NVSMI LOG==============\n",
        "GPU 00000000:00:06.0\n",
        "    Minor Number                           : 0\n",
        "        PCIe Generation\n            Max  : 5\n",
        "\x1b[4m\x00\xff²\n",
        "1e999 2 3 inf\n",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(_PIECES, st.text(max_size=40)), max_size=25))
def test_torn_and_foreign_text_is_input_not_an_error(pieces: list[str]) -> None:
    data = "".join(pieces).encode("utf-8", "replace")
    source = Source("t", Kind.LOG, len(data))
    kind_of(data)
    smi.read(source, data)
    bandwidth.read(source, data)
    logs.read(source, io.BytesIO(data))


@pytest.mark.parametrize(
    "section",
    [
        {"rows": [{"op": "AllReduce", "members": []}]},
        {"rows": [{"op": 1, "size_bytes": 1e400, "members": [0]}]},
        {"rows": 3},
        {"ranks": [{"rank": None}]},
        {"failures": [{"step": None}]},
        {"levers": [{}]},
        [],
        "text",
    ],
)
def test_a_snapshot_made_elsewhere_is_noted_not_believed(section: object) -> None:
    data = json.dumps({"nccldoctor": "snapshot", "schema": 1, "probe": section}).encode()
    digest = snapshot.read(Source("p.json", Kind.SNAPSHOT, len(data)), data)
    assert not any(isinstance(e, BandwidthRow) for e in digest.events)
