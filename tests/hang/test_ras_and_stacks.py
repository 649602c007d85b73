"""RAS's answers and py-spy's stacks, in the forms that tools leave behind."""

import json

from nccldoctor.model.events.ras import RasPeer, RasSnapshot
from nccldoctor.model.events.torch import Stack
from nccldoctor.model.source import Kind, Source
from nccldoctor.parse import ras, stacks

TEXT = """SERVER PROTOCOL 2
NCCL version 2.28.9 compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Communicators... (0.000s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         8         8         8   RUNNING  MISMATCH
    1         1         1         2         2         2  FINALIZE  OK

Errors
======

#0-0 (00df8c7d536fd469) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 6 -- GPU 0 (NVML 3) managed by process 2525 on node 10.0.0.1

Warnings
========

#0-0 (00df8c7d536fd469) MISMATCH
  Communicator ranks have different AllReduce operation counts
  6 ranks have launched up to operation 4
  Rank 7 has not launched any operations -- GPU 1 managed by process 2526 on node 10.0.0.1
"""

JSON = """{
  "nccl_version": "2.28.9",
  "timestamp": "2026-11-30 05:52:45",
  "communicators": [
    {
      "hash": "0xabc",
      "size": 2,
      "ranks": [
        {"rank": 0, "host": "10.0.0.1", "pid": 10, "cuda_dev": 0,
          "status": {"init_state": 0, "async_error": 0, "finalize_called": true},
          "collective_counts": {"AllReduce": 4}}
      ],
      "missing_ranks": [
        {
          "rank": 1,
          "host": "10.0.0.1",
          "pid": 11,
          "cuda_dev": 1,
          "nvml_dev": 1
          "status": {
            "unresponsive": true,
            "considered_dead": true
          }
        }
      ]
    }
  ],
  "ras": {
    "timeouts_count": 2
  }
}
"""


def _ras(text: str) -> list[RasSnapshot | RasPeer]:
    events = ras.read(Source("ras.txt", Kind.RAS, len(text)), text.encode()).events
    return [e for e in events if isinstance(e, (RasSnapshot, RasPeer))]


def test_text_answer() -> None:
    (answer,) = _ras(TEXT)
    assert isinstance(answer, RasSnapshot)
    assert [(g.size, g.status, g.errors) for g in answer.groups] == [
        (8, "RUNNING", "MISMATCH"),
        (2, "FINALIZE", "OK"),
    ]
    (comm,) = answer.communicators
    assert (comm.id, comm.size, comm.mismatch) == ("0xdf8c7d536fd469", 8, True)
    assert {r.rank: r.launched["AllReduce"] for r in comm.ranks} == {
        **dict.fromkeys(range(6), 4),
        7: 0,
    }
    assert comm.ranks[-1].pid == 2526
    assert [(m.rank, m.pid) for m in comm.missing] == [(6, 2525)]


def test_json_answer_without_a_comma() -> None:
    (answer,) = _ras("SERVER PROTOCOL 2\nOK\n" + JSON)
    assert isinstance(answer, RasSnapshot)
    (comm,) = answer.communicators
    assert comm.ranks[0].finalizing and comm.ranks[0].launched == {"AllReduce": 4}
    assert comm.missing[0].considered_dead
    assert answer.collection_timeouts == 2
    assert comm.line is not None and comm.line.number == 8


def test_several_answers_and_monitor_events_in_one_file() -> None:
    monitor = (
        "[2025-12-19 13:07:07] PEER_DEAD: Process 15243 on node 172.16.64.245 managing GPU 1\n"
    )
    event = json.dumps(
        {
            "timestamp": "2025-12-19 13:07:07",
            "group": "LIFECYCLE",
            "event": "PEER_DEAD",
            "peer": {"host": "10.0.0.1", "pid": 5},
        },
        indent=2,
    )
    found = _ras(TEXT + JSON + TEXT + monitor + event + "\n")
    assert [type(e).__name__ for e in found] == [
        "RasSnapshot",
        "RasSnapshot",
        "RasSnapshot",
        "RasPeer",
        "RasPeer",
    ]
    assert [e.peer_pid for e in found if isinstance(e, RasPeer)] == [15243, 5]


def test_torn_json_is_no_answer() -> None:
    assert _ras(JSON[:-40]) == []


PY_SPY = """Process 27406: /usr/bin/python3 -u p.py hang
Python v3.11.7 (/usr/bin/python3.11)

Thread 27406 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3252)
    <module> (p.py:8)
Process 27407: /usr/bin/python3 -u p.py hang
Python v3.11.7 (/usr/bin/python3.11)

Thread 27407 (active+gil): "MainThread"
    load (data.py:7)
"""


def test_py_spy_text_of_two_processes() -> None:
    digest = stacks.read(Source("stacks.txt", Kind.LOG, 0), PY_SPY.encode())
    found = [e for e in digest.events if isinstance(e, Stack)]
    assert [(s.speaker.pid, s.frames[0].function, s.frames[0].line) for s in found] == [
        (27406, "all_reduce", 3252),
        (27407, "load", 7),
    ]


def test_py_spy_json() -> None:
    threads = [
        {
            "pid": 9,
            "thread_name": "MainThread",
            "frames": [{"name": "load", "filename": "data.py", "line": 41}],
        },
        {"pid": 9, "thread_name": "broken", "frames": None},
    ]
    digest = stacks.read(Source("rank_3.json", Kind.LOG, 0), json.dumps(threads).encode())
    (stack,) = digest.events
    assert isinstance(stack, Stack)
    assert (stack.speaker.pid, stack.speaker.rank, stack.thread) == (9, 3, "MainThread")
