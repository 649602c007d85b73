"""Small parts: logs with a limit, the RAS client against a server of its own, faulthandler's text, snapshots."""

import io
import json
import os
import pty
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from nccldoctor.collect import gate, ras
from nccldoctor.collect.governor import Governor
from nccldoctor.collect.gpu_activity import Activity, by_rank
from nccldoctor.collect.intake import RankState
from nccldoctor.collect.output import HeadTail, Lines
from nccldoctor.collect.stacks import main_frames
from nccldoctor.collect.status_line import StatusLine
from nccldoctor.collect.watchdog import Gpu
from nccldoctor.model.events.torch import ProcessEnded, Stack
from nccldoctor.model.events.watched import HangObserved, Instrumented, ProcessEnvironment
from nccldoctor.model.source import Kind, Source
from nccldoctor.parse import snapshot

SAMPLES = Path(__file__).parents[2] / "sample_logs"


def test_a_log_within_its_limit_is_whole(tmp_path):
    log = HeadTail(tmp_path / "log", 1000)
    log.write(b"a\n" * 100)
    log.close()
    assert (tmp_path / "log").read_bytes() == b"a\n" * 100
    assert log.lost_bytes == 0


def test_a_log_beyond_its_limit_keeps_head_and_tail(tmp_path):
    log = HeadTail(tmp_path / "log", 1000)
    for number in range(1000):
        log.write(f"{number}\n".encode())
    log.close()
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0] == "0" and lines[-1] == "999"
    assert any("bytes left out" in line for line in lines)
    assert (tmp_path / "log").stat().st_size < 1200
    assert list(tmp_path.iterdir()) == [tmp_path / "log"]


def test_a_log_that_another_process_writes_is_thinned(tmp_path):
    said = []
    governor = Governor(tmp_path, "nccl_*.log", 1 << 20, 4 << 20, said.append)
    file = tmp_path / "nccl_host_1.log"
    with file.open("wb") as log:
        for number in range(1 << 17):
            log.write(b"NCCL INFO line %07d\n" % number)
            if number % (1 << 14) == 0:
                log.flush()
                governor.look()
        log.flush()
        governor.look()
        if said:
            pytest.skip(said[0])
        assert file.stat().st_blocks * 512 < 2 << 20
    assert "not kept" in governor.finish()[0]
    lines = file.read_text().splitlines()
    assert lines[0].endswith("0000000") and lines[-1].endswith(f"{(1 << 17) - 1:07}")
    assert sum("left out" in line for line in lines) == 1
    assert all(line.startswith(("NCCL INFO line ", "[nccldoctor")) for line in lines)
    assert file.stat().st_size < 1 << 20


def test_a_disk_that_refuses_is_no_error():
    log = HeadTail(Path("/dev/full"), 1000)
    log.write(b"lost\n")
    assert log.lost_bytes == 5
    assert "space" in log.trouble


def test_lines_are_whole():
    lines = Lines(longest=10)
    assert lines.feed(b"one\ntw") == [b"one\n"]
    assert lines.feed(b"o\rthr") == [b"two\r"]
    assert lines.feed(b"x" * 10) == [b"thr" + b"x" * 10 + b"\n"]
    assert lines.feed(b"end") == []
    assert lines.rest() == [b"end\n"]


def serve(answers, seen):
    """A RAS server for one client: text lines in, answers out, closed after STATUS."""
    server = socket.create_server(("127.0.0.1", 0))

    def talk():
        link, _ = server.accept()
        with link, link.makefile("rwb") as stream:
            while line := stream.readline():
                command = line.decode().strip()
                seen.append(command)
                stream.write(answers(command).encode())
                stream.flush()
                if command.endswith("STATUS"):
                    break
        server.close()

    thread = threading.Thread(target=talk)
    thread.start()
    return f"127.0.0.1:{server.getsockname()[1]}", thread


STATUS = {
    "nccl_version": "2.28.9",
    "communicators": [
        {
            "hash": "0x1",
            "secondary_hash": "0x2",
            "ranks": [
                {"rank": 0, "collective_counts": {"AllReduce": 4, "Broadcast": 1}},
                {"rank": 1, "collective_counts": {"AllReduce": 3, "Broadcast": 1}},
            ],
        }
    ],
}


def test_ras_is_asked_and_never_told():
    seen = []

    def answers(command):
        if command.startswith("CLIENT"):
            return "SERVER PROTOCOL 2\n"
        return json.dumps(STATUS) if command == "STATUS" else "OK\n"

    address, thread = serve(answers, seen)
    answer = ras.ask(address, "STATUS", form="json", seconds=1)
    thread.join()
    assert seen == ["CLIENT PROTOCOL 2", "TIMEOUT 1", "SET FORMAT json", "STATUS"]
    assert ras.version(answer) == (2, 28)
    assert ras.launched(answer) == {0: {"0x1/0x2": 5}, 1: {"0x1/0x2": 4}}
    with pytest.raises(ValueError):
        ras.ask(address, "CONTROL PROFILER_MASK all")


def test_nobody_answers():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert ras.ask(f"127.0.0.1:{port}", "STATUS") is None
    assert ras.split_address("[::1]:28028") == ("::1", 28028)
    assert ras.split_address("28028") == ("localhost", 28028)


def test_the_main_thread_comes_last_in_faulthandlers_text():
    text = (
        'Thread 0x1 (most recent call first):\n  File "/a.py", line 1 in helper\n\n'
        "Current thread 0x2 (most recent call first):\n"
        '  File "/b.py", line 7 in inner\n  File "/b.py", line 9 in <module>\n'
    )
    assert [f["name"] for f in main_frames(text)] == ["inner", "<module>"]


def note(**sections):
    return json.dumps({"nccldoctor": "snapshot", "schema": 1, **sections}).encode()


def read(data):
    return snapshot.read(Source("run.json", Kind.SNAPSHOT, len(data)), data)


def test_a_snapshot_becomes_events():
    digest = read(
        note(
            host="n1",
            exits=[{"rank": 1, "pid": 7, "exit_code": -9, "first": True}],
            hang={"state": "skewed", "quiet_seconds": 45.0, "behind": [1], "sentence": "rank 1 …"},
            environments=[{"rank": 0, "pid": 6, "variables": {"NCCL_DEBUG": "INFO"}}],
            stacks=[
                {"rank": 1, "pid": 7, "frames": [{"name": "f", "filename": "a.py", "line": 3}]}
            ],
            instrumented={"NCCL_DEBUG": "INFO"},
        )
    )
    kinds = {type(e): e for e in digest.events}
    assert set(kinds) == {ProcessEnded, HangObserved, ProcessEnvironment, Stack, Instrumented}
    ended = kinds[ProcessEnded]
    assert (ended.ended_rank, ended.exit_code, ended.ended_host, ended.first) == (1, -9, "n1", True)
    assert kinds[HangObserved].behind == (1,)
    assert kinds[Stack].frames[0].function == "f"


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        note(exits=[{"rank": "x"}]),
        note(exits=3),
        note(hang={"state": None}),
        note(stacks=[{"frames": [1]}]),
        json.dumps({"nccldoctor": "snapshot", "schema": 99}).encode(),
    ],
)
def test_a_broken_snapshot_is_said_so(data):
    digest = read(data)
    assert digest.source.note


def test_recorded_readings_of_gpus():
    """Two jobs that hung on an H200: in one a replayed graph waits on the GPU, in the other the host alone."""
    states = {}
    for name in ("graph-replays", "graph-destroy"):
        evidence = SAMPLES / f"2.28.9-run-{name}" / "evidence.json"
        (row,) = json.loads(evidence.read_text())["gpu_activity"]
        row.pop("spinning")
        states[name] = Activity(**row).state
    assert states == {"graph-replays": Gpu.SPINNING, "graph-destroy": Gpu.IDLE}


def test_a_gpu_that_waits_in_a_kernel_is_told_from_one_that_works():
    def state(*reading):
        return Activity(0, *reading).state

    assert state(0, 0, 77.0, 700.0) is Gpu.IDLE  # nvidia-smi of an H200 with nothing on it
    assert state(100, 35, 640.0, 700.0) is Gpu.WORKING
    assert state(100, 60, 250.0, 700.0) is Gpu.WORKING
    assert state(100, 10, 250.0, 700.0) is None
    assert state(50, 0, 100.0, 700.0) is None


def test_each_rank_has_its_own_gpu_or_none():
    spins = Activity(0, 100, 0, 120.0, 700.0, (11,))
    works = Activity(1, 100, 40, 600.0, 700.0, (12,))
    ranks = [RankState(11, 0, 0, 0.0, None), RankState(12, 1, 1, 0.0, None)]
    assert by_rank([spins, works], ranks, None) == {11: Gpu.SPINNING, 12: Gpu.WORKING}
    foreign = [replace(spins, pids=(911,)), replace(works, pids=(912,))]
    assert by_rank(foreign, ranks, None) == {11: Gpu.SPINNING, 12: Gpu.WORKING}
    assert by_rank(foreign, ranks, "1,0") == {11: Gpu.WORKING, 12: Gpu.SPINNING}
    assert by_rank([replace(spins, pids=(11, 12))], ranks, None) == {}


def test_evidence_that_does_not_come_costs_no_other():
    stuck = threading.Event()
    parts = {"stuck": stuck.wait, "fails": lambda: 1 / 0, "there": lambda: [1]}
    found = gate.together(parts, 0.2)
    stuck.set()
    assert found == {"stuck": None, "fails": None, "there": [1]}


def read_pieces(terminal, size):
    """A terminal hands over what was written in pieces of its own."""
    data = b""
    while len(data) < size:
        data += os.read(terminal, 1000)
    return data


def test_the_line_at_the_bottom_is_taken_away_before_output():
    controller, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream:
        line = StatusLine(stream, {"TERM": "xterm"})
        line.clear()
        line.show("nccldoctor: running")
        line.clear()
        line.clear()
        due = b"\r\x1b[2Knccldoctor: running\r\x1b[2K"
        assert read_pieces(controller, len(due)) == due
        StatusLine(stream, {"TERM": "dumb"}).show("nothing")
        stream.write("end")
        stream.flush()
        assert os.read(controller, 1000) == b"end"
    os.close(controller)
    StatusLine(io.StringIO(), {"TERM": "xterm"}).show("nothing")
