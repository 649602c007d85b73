"""The nccldoctors of several hosts tell each other that evidence is being taken."""

import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nccldoctor.collect.intake import RankState
from nccldoctor.collect.rally import Alarm, Rally
from nccldoctor.collect.rally_folder import Folder
from nccldoctor.collect.rally_store import Store, where
from nccldoctor.doctor import examine
from tests.run.watched_job import JOB, environment, finish, needs_torch, start

HANG = {"state": "skewed", "behind": [3], "ended_job": True}


def never():
    return False


def soon():
    return time.monotonic() + 20


def test_ranks_that_share_a_folder_wait_for_each_other(tmp_path):
    a, b = (Rally(name, name, [Folder(tmp_path, name)]) for name in "ab")
    assert a.others() == b.others() == 1
    assert b.heard() is None
    a.call("rank 3 is behind", HANG)
    assert a.heard() is not None and a.heard().host == "a"
    a.secure()
    assert not a.wait(time.monotonic() + 0.3, never)
    alarm = b.heard()
    assert (alarm.host, alarm.why, alarm.hang, alarm.ends_job) == ("a", "rank 3 is behind", HANG, True)  # fmt: skip
    b.call("told", None)  # an answer is no alarm of its own
    b.secure()
    assert b.heard() is None
    assert a.wait(soon(), never) and b.wait(soon(), never)
    a.leave(), b.leave()
    assert list(tmp_path.iterdir()) == []


def test_an_alarm_is_passed_on_from_channel_to_channel(tmp_path):
    left, right = tmp_path / "left", tmp_path / "right"
    left.mkdir(), right.mkdir()
    a = Rally("a", "a", [Folder(left, "a")])
    between = Rally("b", "b", [Folder(left, "b"), Folder(right, "b")])
    c = Rally("c", "c", [Folder(right, "c")])
    a.call("a rank has failed", None)
    assert c.heard() is None
    assert between.heard().host == "a"
    assert c.heard().host == "a"


def test_two_alarms_at_once_do_not_wait_for_ever(tmp_path):
    a, b = (Rally(name, name, [Folder(tmp_path, name)]) for name in "ab")
    a.call("slow", None), b.channels[0].call(Alarm("b/b/1", "b", "slow too"))
    for rally in (a, b):
        rally.heard(), rally.secure()
    assert a.wait(soon(), never) and b.wait(soon(), never)


def test_alone_nobody_is_waited_for():
    rally = Rally("a", "a")
    rally.call("why", HANG)
    assert rally.wait(soon(), never)


def test_a_folder_that_refuses_is_no_error():
    rally = Rally("a", "a", [Folder(Path("/proc/nowhere"), "a")])
    rally.call("why", None)
    rally.secure()
    assert rally.wait(soon(), never)


def test_foreign_markers_are_left_out(tmp_path):
    folder = Folder(tmp_path, "a")
    for name, text in (("alarm.x", "{"), ("alarm.y", "[]"), ("alarm.z", '{"origin": "z"}')):
        (tmp_path / ".nccldoctor" / name).write_text(text)
    assert folder.alarms() == []


def ranks(**status):
    return [RankState(1, 0, 0, 0.0, None, {"stage": "group", **status})]


def test_where_the_store_is():
    store = {"MASTER_ADDR": "head", "MASTER_PORT": "29500"}
    assert where("head:29400", [], {}) == ("head", 29400)
    assert where("head", [], {}) == ("head", 29400)
    assert where("[::1]:7", [], {}) == ("::1", 7)
    assert where(None, [], store) is None
    assert where(None, ranks(world=2), {**store, "LOCAL_WORLD_SIZE": "2"}) is None
    assert where(None, ranks(world=4), {**store, "LOCAL_WORLD_SIZE": "2"}) == ("head", 29500)
    assert where(None, ranks(world=2), {**store, "SLURM_NNODES": "2"}) == ("head", 29500)
    assert where(None, ranks(world=4), {"LOCAL_WORLD_SIZE": "2"}) is None


@needs_torch
def test_hosts_meet_at_the_jobs_store(tmp_path):
    from torch.distributed import TCPStore

    server = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    address = ("127.0.0.1", server.port)
    a, b = (Rally(n, n, [Store(address, n, sys.executable, environment())]) for n in "ab")
    deadline = time.monotonic() + 60
    while a.others() + b.others() < 2:
        assert time.monotonic() < deadline
        a.heard(), b.heard()
        time.sleep(0.1)
    a.call("rank 3 is behind", HANG)
    a.secure()
    assert not a.wait(time.monotonic() + 0.5, never)
    while (alarm := b.heard()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert (alarm.host, alarm.hang) == ("a", HANG)
    b.secure()
    assert a.wait(soon(), never) and b.wait(soon(), never)
    child = b.channels[0]._child
    b.leave()
    assert child.poll() is not None
    while a.others():  # who has left is waited for no more
        assert time.monotonic() < deadline
        a.heard()
        time.sleep(0.1)
    a.call("again", None)
    a.secure()
    assert a.wait(soon(), never)
    a.leave()


def test_no_store_is_no_error():
    rally = Rally("a", "a", [Store(("127.0.0.1", 1), "a", "/no/python", {})])
    rally.call("why", None)
    rally.secure()
    assert rally.wait(soon(), never)
    rally.leave()


def named_host(name):
    """Words that give a command a host name of its own, where that is allowed."""
    words = ("unshare", "--uts", "sh", "-c", f'hostname {name} && exec "$@"', "sh")
    allowed = shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True)
    return words if allowed and allowed.returncode == 0 else ()


@needs_torch
@pytest.mark.slow
def test_a_host_whose_ranks_look_fine_takes_its_evidence_too(tmp_path):
    """Two hosts with folders of their own; only the second one's watchdog is quick enough to see the hang."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    folders = [tmp_path / "n0", tmp_path / "n1"]
    patient = ("--hang-timeout", "300", "--symmetric-timeout", "300")
    hosts = [
        start(
            folder,
            *(patient if number == 0 else ("--symmetric-timeout", "300")),
            *("--nproc", "2" if number else "1", "--nnodes", "2", "--node-rank", str(number)),
            *("--rdzv-endpoint", f"127.0.0.1:{port}", str(JOB), "sleep"),
            within=named_host(f"node-{number}"),
            PET_LOCAL_ADDR="127.0.0.1",
            GLOO_SOCKET_IFNAME="lo",
        )
        for number, folder in enumerate(folders)
    ]
    jobs = [finish(process, folder) for process, folder in zip(hosts, folders, strict=True)]
    assert [job.code for job in jobs] == [124, 124]
    named = named_host("node-1") != ()
    assert "says)" in jobs[0].errors
    assert len([f for folder in folders for f in folder.glob("evidence_*.json")]) == 2
    assert jobs[0].verdict["ranks"] == jobs[1].verdict["ranks"] == [2]
    both = [str(folder) for folder in folders]
    told = tmp_path / "both.json"
    subprocess.run(
        [sys.executable, "-m", "nccldoctor", "parse", *both, "--no-html", "--json", str(told)],
        env=environment(),
        capture_output=True,
        check=False,
    )
    verdict = json.loads(told.read_text())["verdict"]
    assert (verdict["code"], verdict["ranks"]) == ("HANG01", [2])
    assert not named or verdict["hosts"] == ["node-1"]
    for job in jobs:
        job.assert_nothing_left()


def test_the_first_failure_of_all_hosts_is_the_one_that_did_not_follow(tmp_path):
    """Each host has a first failure of its own; the rank that lost its peer is not the cause."""
    for host, rank, code in (("a", 0, 1), ("b", 3, -9)):
        end = {"rank": rank, "pid": 70 + rank, "exit_code": code, "first": True, "host": host}
        note = {"nccldoctor": "snapshot", "schema": 1, "host": host, "exits": [end]}
        (tmp_path / host).mkdir()
        (tmp_path / host / "run.json").write_text(json.dumps(note))
    (tmp_path / "a" / "rank_0.out").write_text(
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/x/train.py", line 9, in <module>\n'
        "[rank0]:     dist.all_reduce(x)\n"
        "[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error "
        "[10.0.0.2]:40368: Connection reset by peer\n"
    )
    verdict = examine([str(tmp_path)]).verdict
    assert (verdict.code, verdict.ranks, verdict.hosts) == ("CRASH01", (3,), ("b",))
