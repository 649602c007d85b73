"""One NCCL setting at a time: recorded on two H200; what was tried on purpose is told in a table and blamed on nobody."""

import json
import shutil
from pathlib import Path

from nccldoctor import doctor
from nccldoctor.collect.probe.levers import LEVERS, aside_folder, log_aside
from nccldoctor.collect.probe.session import Session, Wish

SAMPLES = Path(__file__).parent.parent.parent / "sample_logs"
P2P_OFF = next(lever for lever in LEVERS if lever.name == "P2P off")


def _session(folder: Path, environment: dict[str, str]) -> Session:
    return Session(Wish(folder), lambda text: None, [], 2, "cuda", environment, "nccldoctor")


def test_table_of_a_recorded_run(tmp_path: Path) -> None:
    report = doctor.examine([str(SAMPLES / "probe-levers-h200")])
    html, body = tmp_path / "report.html", tmp_path / "report.json"
    doctor.write_reports(report, html=html, json=body)
    levers = {v["name"]: v for v in json.loads(body.read_text())["jobs"][0]["levers"]}
    assert levers["as it is"]["part"] == 1
    assert levers["P2P off"]["variables"] == {"NCCL_P2P_DISABLE": "1"}
    assert levers["P2P off"]["part"] < 0.1 < 0.9 < levers["SHM off"]["part"]
    assert levers["NVLS off"]["state"] == "already so" and levers["NVLS off"]["part"] is None
    assert "One NCCL setting at a time" in html.read_text()


def test_log_of_a_lever_goes_beside_the_run_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    session = _session(run, {"NCCL_DEBUG_FILE": str(run / "nccl_debug_%h_%p.log")})
    aside = log_aside(session, P2P_OFF)
    assert aside == {"NCCL_DEBUG_FILE": str(tmp_path / "run-levers/P2P-off/nccl_debug_%h_%p.log")}
    assert aside_folder(session, P2P_OFF).is_dir()


def test_file_that_the_user_chose_stays_his(tmp_path: Path) -> None:
    session = _session(tmp_path / "run", {"NCCL_DEBUG_FILE": "/elsewhere/%h.log"})
    assert log_aside(session, P2P_OFF) == {}
    assert not aside_folder(session).exists()


def test_a_quarter_of_the_bandwidth_is_a_finding(tmp_path: Path) -> None:
    folder = tmp_path / "slower"
    shutil.copytree(SAMPLES / "probe-h200", folder)
    body = json.loads((folder / "probe.json").read_text())
    for row in body["probe"]["rows"]:
        row["bus_gbytes_per_second"] /= 4
    (folder / "probe.json").write_text(json.dumps(body))
    report = doctor.examine([str(folder)])
    assert report.verdict.code == "PERF01"
