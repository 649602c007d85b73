"""Bad input is input: one clear sentence under inputs, nothing else lost, no exception whatever the bytes."""

import io
import os
import pickle
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nccldoctor import doctor
from nccldoctor.cli import main
from nccldoctor.model.report import Report
from nccldoctor.model.source import Kind, Source

GOOD = "gpu-1:71:71 [0] init.cc:904 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60\n"


class _Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.system, ("touch /tmp/nccldoctor-was-here",))


BAD = {
    "empty": b"",
    "binary": bytes(range(256)) * 50,
    "truncated pickle": pickle.dumps({"version": "2.10", "entries": [{"a": "b" * 99}] * 9}, 2)[
        :200
    ],
    "hostile pickle": pickle.dumps({"version": "2.10", "entries": [_Bomb()]}, 2),
    "not UTF-8": b"gpu-1:71:71 [0] NCCL INFO \xff\xfe\x80 caf\xe9\n",
    "one long line": b"x" * (1 << 20),
    "one long NCCL line": b"gpu-1:71:71 [0] NCCL INFO " + b"Channel 00 : " * 80_000,
    "truncated JSON": b'{"version": "2.10", "entries": [{"record_id": 0, "pg_',
    "truncated XML": b'<system version="1"><cpu numaid="0"><pci busid="',
    "RAS cut short": b'SERVER PROTOCOL 2\nOK\n{"nccl_version": "2.28.9", "communicators": [{"hash": "0x',
}


@pytest.mark.parametrize("name", BAD)
def test_costs_nothing_else(name: str, tmp_path: Path) -> None:
    (tmp_path / "good.log").write_text(GOOD)
    (tmp_path / "odd").write_bytes(BAD[name])
    report = doctor.examine([str(tmp_path)])
    assert report.verdict.code == "INIT02"
    odd = next(s for s in report.inputs if s.path.endswith("odd"))
    if name in ("empty", "binary", "truncated pickle", "hostile pickle", "RAS cut short"):
        assert odd.note and "\n" not in odd.note
    assert not Path("/tmp/nccldoctor-was-here").exists()


def test_missing_path_says_how_to_mend(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["parse", str(tmp_path / "nowhere.log")])
    assert result.exit_code == 2
    assert "nowhere.log" in result.output and "Traceback" not in result.output


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file_is_listed(tmp_path: Path) -> None:
    (tmp_path / "good.log").write_text(GOOD)
    closed = tmp_path / "closed.log"
    closed.write_text(GOOD)
    closed.chmod(0)
    report = doctor.examine([str(tmp_path)])
    assert next(s for s in report.inputs if s.path == str(closed)).kind is Kind.UNREADABLE


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=200),
            st.sampled_from(
                [GOOD.encode(), b"NCCL", b" NCCL INFO ", b"[rank0]: ", b"\r", b"\n", b"{", b"<"]
            ),
        ),
        max_size=30,
    )
)
def test_any_bytes_make_a_digest(parts: list[bytes]) -> None:
    from nccldoctor.evidence.kinds import kind_of
    from nccldoctor.parse import logs

    data = b"".join(parts)
    kind_of(data)
    digest = logs.read(Source("any", Kind.LOG, len(data)), io.BytesIO(data))  # type: ignore[arg-type]
    report: Report = doctor.conclude([digest])
    assert report.verdict.headline


def test_same_input_same_bytes(tmp_path: Path) -> None:
    from nccldoctor.report import to_html, to_json

    (tmp_path / "good.log").write_text(GOOD)
    first, second = (doctor.examine([str(tmp_path)]) for _ in range(2))
    assert to_json(first) == to_json(second) and to_html(first) == to_html(second)
