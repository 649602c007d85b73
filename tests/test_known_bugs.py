"""Every known bug is told of when its version and its signs are there, and of neither alone."""

import json
from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.knowledge.known_bugs import KNOWN_BUGS, KnownBug

_H = "gpu-1:71:71 [0] NCCL INFO "
_TIMED_OUT = "[rank0]:[E1130 04:10:12.1 ProcessGroupNCCL.cpp:683] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType={1}, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n"
_START = "ncclCommInitRank comm 0x{0}5 rank {0} nranks {1} cudaDev {0} nvmlDev {0} busId {0}0 commId 0xaa - Init {2}\n"
_PROGRESS = "[rank0]:[E1130 04:10:12.2 ProcessGroupNCCL.cpp:2268] [PG ID 1 PG GUID 1 Rank 0]  failure detected by watchdog at work sequence id: 5 PG status: last enqueued work: 5, last completed work: 4\n"
_RAS = """NCCL version {0} compiled with CUDA 12.6

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         2         4         4   RUNNING  {1}

Warnings
========
{2}"""
_AHEAD = """
#0-0 (fa93daea854b060b) MISMATCH
  Communicator ranks have different AllGather operation counts
  3 ranks have launched up to operation 640
  Rank 2 has launched up to operation 641 -- GPU 4 managed by process 71 on node 10.0.0.24
"""
_JSON = """{{
  "nccl_version": "{0}",
  "communicators": [
    {{
      "hash": "0xaa", "size": 2, "ranks": [],
      "missing_ranks": [
        {{
          "rank": 1, "host": "10.0.0.2", "pid": 1088, "cuda_dev": 1,
          "nvml_dev": 1
          "status": {{ "unresponsive": true, "considered_dead": false }}
        }}
      ]
    }}
  ]
}}
"""
_UNEVEN = "".join(
    f"gpu-{h}:7{r}:7{r} [{r}] NCCL INFO " + _START.format(r, 3, "START")
    for h, r in ((1, 0), (1, 1), (2, 2))
)
_NET = "Channel 00/0 : 1[0] -> 0[0] [receive] via {0}\n"
_SEGFAULT = "[81234.1] python3[71]: segfault at 8 ip 00007f3d5c1a2b10 sp 00007f3d2effc8e0 error 4 in libnccl.so.2[7f3d5c000000+8a00000]\n"

_LOG = {
    "hang": _TIMED_OUT.format(0, "ALLREDUCE"),
    "watchdog": _TIMED_OUT.format(0, "ALLREDUCE"),
    "watchdog-rank-stale": _TIMED_OUT.format(3, "ALLREDUCE") + _PROGRESS,
    "hang-in-p2p": _TIMED_OUT.format(0, "ALLTOALL_BASE"),
    "init-unfinished": _UNEVEN,
    "uneven-hosts": "",
    "one-rank-a-host": _H
    + _START.format(0, 2, "COMPLETE")
    + ("gpu-2:81:81 [0] NCCL INFO " + _START.format(1, 2, "COMPLETE")),
    "segfault": _SEGFAULT,
    "abort": "[gpu-1:00071] Signal: Aborted (6)\n",
    "abort-unfinished": _H + "comm 0x5 rank 0 nranks 8 cudaDev 0 busId 10 - Abort START\n",
    "device-unusable": "gpu-1:71:71 [0] transport/net_ib.cc:300 NCCL WARN NET/IB : Unable to open device erdma_1\n",
    "mnnvl": _H + "comm 0x5 rank 0 nRanks 64 nNodes 16 localRanks 4 localRank 0 MNNVL 1\n",
    "cumem-on": _H + "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n",
    "wrong-data": "# nThread 1 nGpus 2 minBytes 1024 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    "        1024           256     float     sum      -1    12.1    0.08    0.08      7    11.9    0.09    0.09      0\n",
    "network-failed": "gpu-1:71:75 [0] transport/net_ib.cc:1022 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<40822> with error 12, opcode 0, len 0, vendor err 129\n",
    "network-plugin": _H + "Using network UCX\n",
    "peer-closed": _H + "misc/socket.cc:50 NCCL WARN Net : Connection closed by remote peer 10.0.0.2<41000>\n",
    "pxn": _H + "Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/1(1)/GDRDMA\n",
    "grace": _H + "CPU/0-0 (2/3/1)\n" + _H + "+ C2C[360.0] - GPU/0-901000 (0)\n",
    "no-gdr": _H + _NET.format("NET/IB/0"),
    "network:IB": _H + "Using network IB\n",
    "network:Socket": _H + "Using network Socket\n",
    "transport:COLLNET": _H + "Channel 00/0 : 0[0] -> 1[1] [send] via COLLNET/SHARP/0\n",
    "size>=256": _H + _START.format(0, 512, "START"),
    "size>=40": _H + _START.format(0, 64, "START"),
    "size==2": _H + _START.format(0, 2, "START"),
    "frame:ras": _SEGFAULT + " 3  /opt/nccl/lib/libnccl.so(rasMsgHandlePeersUpdate+0x57) [0x7ff1c18c1057]\n",
    "frame:ncclGin": _SEGFAULT + " 3  /opt/nccl/lib/libnccl.so(ncclGinInit+0x57) [0x7ff1c18c1057]\n",
    "frame:ncclCuMemHostEnable": _SEGFAULT + " 3  /opt/nccl/lib/libnccl.so(ncclCuMemHostEnable+0x57) [0x7ff1c18c1057]\n",
    "cuda:illegal memory access": "gpu-1:71:71 [0] enqueue.cc:1 NCCL WARN Cuda failure 'an illegal memory access was encountered'\n",
    "cuda:invalid argument@nvls.cc": "gpu-1:71:71 [0] transport/nvls.cc:165 NCCL WARN Cuda failure 'invalid argument'\n",
    "cuda:invalid argument@shm.h": "gpu-1:71:71 [0] include/shm.h:50 NCCL WARN Cuda failure 'invalid argument'\n",
}  # fmt: skip
"""What a log says that shows a sign."""
_FILES = {
    "ras": _RAS.replace("{1}", "OK").replace("{2}", ""),
    "ras-level": _RAS.replace("{1}", "OK").replace("{2}", ""),
    "ras-minority-ahead": _RAS.replace("{1}", "MISMATCH").replace("{2}", _AHEAD),
    "ras-json-mended": _JSON,
}
"""Signs that a file of their own shows, with the version in it."""


def _write(folder: Path, bug: KnownBug, version: str, signs: tuple[str, ...]) -> None:
    library = "RCCL version {0}+hip6.3" if bug.library == "rccl" else "NCCL version {0}+cuda12.4"
    log = _H + library.format(version) + "\n" if bug.library != "torch" else ""
    for sign in signs:
        kind, _, rest = sign.partition(":")
        if sign in _FILES:
            text = _FILES[sign].replace("{0}", version).replace("{{", "{").replace("}}", "}")
            (folder / f"{sign}.txt").write_text(text)
        elif kind in ("env", "env>1"):
            name, _, value = rest.partition("=")
            log += f"{_H}{name} set by environment to {value or 4}\n" if "NCCL" in name else ""
            log += f"{name}={value or 4}\n"
        elif kind == "gpu":
            gpus = [{"index": 0, "name": f"AMD Instinct {rest}0X"}]
            body = {"nccldoctor": "snapshot", "schema": 1, "host": "gpu-1", "gpus": gpus}
            (folder / "topo.json").write_text(json.dumps(body))
        else:
            log += _LOG[sign]
    (folder / "job.log").write_text(log)


def _told(folder: Path, bug: KnownBug) -> bool:
    findings = doctor.examine([str(folder)]).findings
    return any(f.code == "BACKEND08" and f"read {bug.source}" in f.remedy for f in findings)


def _inside(bug: KnownBug) -> str:
    if bug.library == "torch":
        return ""
    return bug.since or bug.last or _less(bug.fixed)


def _outside(bug: KnownBug) -> str:
    return bug.fixed or (_more(bug.last) if bug.last else _less(bug.since))


def _less(version: str) -> str:
    major, minor, _ = version.split(".")
    return f"{major}.{int(minor) - 1}.1"


def _more(version: str) -> str:
    major, minor, _ = version.split(".")
    return f"{major}.{int(minor) + 1}.1"


_TEARDOWN = next(b for b in KNOWN_BUGS if b.name == "recorder-misses-teardown")
_BY_LOG = [b for b in KNOWN_BUGS if b is not _TEARDOWN]
_STACK = """Process 1088: python train.py
Python v3.11.7 (python3.11)

Thread 1088 (idle): "MainThread"
    {0} (torch/distributed/distributed_c10d.py:2146)
    main (train.py:31)
"""


@pytest.mark.parametrize("bug", _BY_LOG, ids=lambda b: b.name)
def test_version_and_signs_tell(bug: KnownBug, tmp_path: Path) -> None:
    _write(tmp_path, bug, _inside(bug), bug.signs)
    assert _told(tmp_path, bug)


@pytest.mark.parametrize("bug", _BY_LOG, ids=lambda b: b.name)
def test_a_version_alone_tells_nothing(bug: KnownBug, tmp_path: Path) -> None:
    _write(tmp_path, bug, _inside(bug), ())
    assert not _told(tmp_path, bug)


@pytest.mark.parametrize("bug", [b for b in _BY_LOG if b.library != "torch"], ids=lambda b: b.name)
def test_signs_in_a_version_without_it_tell_nothing(bug: KnownBug, tmp_path: Path) -> None:
    _write(tmp_path, bug, _outside(bug), bug.signs)
    assert not _told(tmp_path, bug)


@pytest.mark.parametrize(
    ("function", "told"), [("destroy_process_group", True), ("all_reduce", False)]
)
def test_no_dump_of_a_rank_in_teardown(function: str, told: bool, tmp_path: Path) -> None:
    sample = Path(__file__).parent.parent / "sample_logs" / "2.28.9-rank-killed"
    for name in ("fr_rank_0", "nccl_debug_gpu-node-01_1087.log", "nccl_debug_gpu-node-01_1088.log"):
        (tmp_path / name).write_bytes((sample / name).read_bytes())
    (tmp_path / "stack.txt").write_text(_STACK.format(function))
    assert _told(tmp_path, _TEARDOWN) is told
