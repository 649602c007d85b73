"""Evidence behind an address is read as if it lay here; what fails costs that address only."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.report import to_html, to_json, to_markdown

pytest.importorskip("fsspec")
GOOD = "gpu-1:71:71 [0] init.cc:904 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60\n"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "nccl.log").write_text(GOOD)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path))) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_address[1]}"
        http.shutdown()
        thread.join()


@pytest.mark.filterwarnings("ignore")
def test_http(server: str, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    report = doctor.examine([f"{server}/nccl.log", f"{server}/absent.log"])
    assert report.verdict.code == "INIT02"
    assert report.inputs[0].path == f"{server}/nccl.log"
    assert report.inputs[1].note.startswith("cannot be fetched")


def test_remote_glob_over_another_file_system(tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for name in ("a", "b"):
        memory.pipe(f"/run/{name}.log", GOOD.encode())
    report = doctor.examine(["memory://run/*.log"])
    assert len(report.inputs) == 2 and report.verdict.code == "INIT02"


def test_unknown_protocol_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "good.log").write_text(GOOD)
    report = doctor.examine([str(tmp_path / "good.log"), "nosuch://host/file"])
    assert report.verdict.code == "INIT02"
    assert "cannot be fetched" in report.inputs[1].note and "\n" not in report.inputs[1].note


@pytest.mark.filterwarnings("ignore")
def test_no_password_and_no_signature_reaches_a_report(server: str, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    host = server.partition("://")[2]
    report = doctor.examine(
        [
            f"{server}/nccl.log?X-Amz-Signature=secret1",
            f"http://someone:secret2@{host}/absent.log?sig=secret1",
            "nosuch://someone:secret2@host/file",
        ]
    )
    assert report.verdict.code == "INIT02" and not report.inputs[0].note
    assert report.inputs[1].path == f"http://someone@{host}/absent.log?…"
    for text in (to_json(report), to_markdown(report), to_html(report)):
        assert "secret1" not in text and "secret2" not in text
