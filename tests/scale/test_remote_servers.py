"""Evidence in a bucket and on another host, over servers that really answer: moto's S3 and OpenSSH on loopback."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.report import to_json

SAMPLE = Path(__file__).parents[2] / "sample_logs" / "2.28.9-dup-gpu"
SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")

pytestmark = pytest.mark.filterwarnings("ignore")


def lacks(*modules: str) -> bool:
    return any(find_spec(name) is None for name in modules)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a bucket with the sample's files in it."""
    from moto.server import ThreadedMotoServer

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "something")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        import boto3

        client = boto3.client("s3")
        client.create_bucket(Bucket="evidence")
        for path in sorted(SAMPLE.iterdir()):
            client.put_object(Bucket="evidence", Key=f"run7/{path.name}", Body=path.read_bytes())
        yield "s3://evidence"
    finally:
        server.stop()


@pytest.mark.skipif(
    lacks("moto", "flask", "flask_cors", "s3fs"),
    reason="moto[s3], flask, flask-cors or s3fs is absent",
)
def test_a_bucket(bucket: str) -> None:
    report = doctor.examine([f"{bucket}/run7/*", f"{bucket}/run8/absent.log"])
    assert report.verdict.code == "INIT02"
    assert [s.path for s in report.inputs if not s.note] == [
        f"{bucket}/run7/{path.name}" for path in sorted(SAMPLE.iterdir())
    ]
    (lost,) = [s for s in report.inputs if s.note]
    assert lost.path.endswith("absent.log") and "cannot be fetched" in lost.note


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of this machine's root folder through an sshd of its own, which lets this user in by key."""
    folder = tmp_path / "ssh"
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    folder.mkdir()
    for key in (folder / "host_key", home / ".ssh" / "id_ed25519"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host_key",
        "AuthorizedKeysFile": home / ".ssh" / "id_ed25519.pub",
        "PidFile": "none",
        "StrictModes": "no",
        "PermitRootLogin": "yes",
        "PasswordAuthentication": "no",
        "UsePAM": "no",
        "Subsystem": "sftp internal-sftp",
    }
    config = folder / "config"
    config.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # OpenSSH wants it for the part without rights
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    assert SSHD
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=log)
    try:
        _wait_for(port, server)
        yield f"ssh://{getpass.getuser()}@127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int, server: "subprocess.Popen[bytes]") -> None:
    for _ in range(300):
        assert server.poll() is None, "sshd ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("sshd does not listen")


@pytest.mark.skipif(
    lacks("paramiko") or SSHD is None or shutil.which("ssh-keygen") is None,
    reason="paramiko or OpenSSH's sshd is absent",
)
def test_another_host(host: str) -> None:
    report = doctor.examine([f"{host}{SAMPLE}/*.log", f"{host}{SAMPLE}/absent"])
    assert report.verdict.code == "INIT02"
    read = [s for s in report.inputs if not s.note]
    assert len(read) == len(list(SAMPLE.glob("*.log")))
    (lost,) = [s for s in report.inputs if s.note]
    assert "cannot be fetched" in lost.note
    assert "127.0.0.1" in to_json(report)
