"""`nccldoctor watch` looks at a running job from outside and leaves it running."""

import contextlib
import json
import re
import socket
import subprocess
import sys
import threading

from tests.run.test_parts import STATUS
from tests.run.test_wrapping import TORCHRUN
from tests.run.watched_job import JOB, environment, finish, needs_torch, start, wait_until_ready


def watch(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "nccldoctor", "watch", *words],
        env=environment(),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )


@needs_torch
def test_a_hang_is_seen_and_left_alone(tmp_path):
    job = subprocess.Popen(
        [*TORCHRUN, str(JOB), "sleep"],
        env=environment(),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        wait_until_ready(job)
        folder = tmp_path / "run"
        limits = ("--every", "0.5", "--symmetric-timeout", "3")
        done = watch("--pid", str(job.pid), *limits, "--run-dir", str(folder), cwd=tmp_path)
        assert done.returncode == 1, done.stderr
        verdict = json.loads((folder / "report.json").read_text())["verdict"]
        assert (verdict["code"], verdict["ranks"]) == ("HANG01", [1])
        assert job.poll() is None
    finally:
        job.terminate()
        job.communicate(timeout=60)


def test_nothing_to_watch_is_said_so(tmp_path):
    assert watch(cwd=tmp_path).returncode == 2
    assert "no process" in watch("--pid", "999999999", cwd=tmp_path).stderr
    assert "RAS needs NCCL 2.24" in watch("--ras", "localhost:1", cwd=tmp_path).stderr


@contextlib.contextmanager
def ras_server():
    """The address of a server that answers as NCCL's does, with the same counts every time."""
    status = json.dumps(STATUS)

    def answer(link):
        with link, link.makefile("rwb") as stream:
            for raw in stream:
                command = raw.decode().strip()
                if command.startswith("CLIENT"):
                    stream.write(b"SERVER PROTOCOL 2\n")
                elif command.endswith("STATUS"):
                    stream.write(status.encode())
                    return
                else:
                    stream.write(b"OK\n")
                stream.flush()

    def serve():
        with contextlib.suppress(OSError):
            while True:
                answer(server.accept()[0])

    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, daemon=True).start()
    yield f"127.0.0.1:{server.getsockname()[1]}"
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def test_a_hang_is_seen_through_ras_alone(tmp_path):
    folder = tmp_path / "run"
    limits = ("--every", "0.5", "--hang-timeout", "2", "--run-dir", str(folder))
    with ras_server() as address:
        done = watch("--ras", address, *limits, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "rank 1 is behind" in done.stderr
    verdict = json.loads((folder / "report.json").read_text())["verdict"]
    assert (verdict["status"], verdict["ranks"]) == ("hung", [1])


def test_ranks_that_report_nothing_are_watched_through_ras(tmp_path):
    """A command whose ranks do not load what nccldoctor puts in their way, as `python -E`: reported, and not ended."""
    folder = tmp_path / "run"
    with ras_server() as address:
        job = finish(
            start(folder, "--hang-timeout", "2", "--", "sleep", "22", NCCL_RAS_ADDR=address), folder
        )
    assert job.code == 0
    assert "rank 1 is behind" in job.errors
    assert "the job is not ended" in job.errors
    assert re.findall(r"nccldoctor: (hung|healthy|unknown): ", job.errors)[0] == "hung"
