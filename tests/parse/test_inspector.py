"""Inspector's JSON lines become one row for each communicator, operation and size."""

import json
from pathlib import Path

from nccldoctor.evidence.discover import discover
from nccldoctor.model.events.measured import BandwidthRow
from nccldoctor.model.source import Kind
from nccldoctor.parse import digest_input


def entry(time: float, size: int = 1 << 20, op: str = "AllReduce") -> str:
    kind = "p2p" if op == "Send" else "coll"
    return json.dumps(
        {
            "header": {"id": "0xabc", "rank": 3, "n_ranks": 8, "nnodes": 1},
            "metadata": {
                "inspector_output_format_version": "v4.0",
                "hostname": "gpu-1",
                "pid": 70,
            },
            f"{kind}_perf": {
                kind: op,
                f"{kind}_sn": 4,
                f"{kind}_msg_size_bytes": size,
                f"{kind}_exec_time_us": time,
                f"{kind}_timing_source": "kernel_gpu",
                f"{kind}_algobw_gbs": size / time / 1000,
                f"{kind}_busbw_gbs": 1.75 * size / time / 1000,
            },
        }
    )


def test_rows_are_medians_and_a_cut_line_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "gpu-1-pid70.log"
    lines = [entry(10), entry(30), entry(20), entry(5, 4096), entry(7, 64, "Send"), entry(9)[:50]]
    path.write_text("\n".join(lines))
    (digest,) = digest_input(discover([str(path)])[0])
    assert digest.source.kind is Kind.INSPECTOR
    assert digest.source.note == "1 torn lines"
    rows = [e for e in digest.events if isinstance(e, BandwidthRow)]
    assert [(r.op, r.size_bytes, r.time_us, r.ranks) for r in rows] == [
        ("AllReduce", 1 << 20, 20.0, 8),
        ("AllReduce", 4096, 5.0, 8),
        ("Send", 64, 7.0, 8),
    ]
    assert (rows[0].speaker.host, rows[0].speaker.pid, rows[0].origin) == ("gpu-1", 70, "inspector")
