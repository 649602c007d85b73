"""Pictures are well-formed, marked as the facts say, and drawn for any size of job."""

import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from defusedxml import ElementTree

from nccldoctor.correlate.facts import facts
from nccldoctor.model.events import nccl, torch
from nccldoctor.model.job import Job, Process
from nccldoctor.model.source import Line, Speaker
from nccldoctor.report.html import render
from nccldoctor.report.json import to_dict
from nccldoctor.report.lanes import communicators
from nccldoctor.report.standing import standings
from nccldoctor.report.svg.curves import curves
from nccldoctor.report.svg.grid import rank_grid
from nccldoctor.report.svg.hosts import host_map
from nccldoctor.report.svg.matrix import pair_matrix
from nccldoctor.report.svg.timeline import timeline
from nccldoctor.report.svg.topology import topology
from nccldoctor.report.words import harmless, size, spans

START = datetime(2026, 3, 12, 10, 11, 12, tzinfo=timezone.utc)

ODD = "<&\"'\x00\x1b[1m\u202e>"


def _drawn(report: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    data = to_dict(report)
    job = data["jobs"][0]
    standing = standings(job, data["findings"])
    return job, {
        "grid": rank_grid(job, standing),
        "hosts": host_map(job, standing),
        "timeline": timeline(job["timeline"]),
        "curves": curves(job["bandwidth"]),
        "topology": topology(job["topologies"][0], job),
        "pairs": pair_matrix(job["pairs"]),
    }


@pytest.mark.parametrize("count", [2, 8, 128, 4096])
@pytest.mark.parametrize("word", ["", ODD])
def test_pictures_are_well_formed(make_report: Any, count: int, word: str) -> None:
    _, drawn = _drawn(make_report(count, 2 if count < 64 else 8, word))
    drawn = {name: svg for name, svg in drawn.items() if svg or count > 2}
    for name, svg in drawn.items():
        root = ElementTree.fromstring(
            str(svg).replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
        )
        assert root.get("aria-label"), name
        assert root.get("role") == "img"


def test_every_rank_has_a_cell_and_only_one_is_the_cause(make_report: Any) -> None:
    _, drawn = _drawn(make_report(64, 8))
    grid = str(drawn["grid"])
    assert grid.count("data-rank=") == 64
    assert grid.count('href="#cell-bad"') == 1
    assert grid.count('href="#cell-hit"') == 63
    assert "rank 63: named as the cause · HANG01 · gpu-node-08" in grid


def test_silent_ranks_are_shown_as_silent(make_report: Any) -> None:
    data = to_dict(make_report())
    job = data["jobs"][0]
    job["ranks"][3].update(heard=False, host=None)
    grid = str(rank_grid(job, standings(job, [])))
    assert grid.count('href="#cell-silent"') == 1
    assert "host unknown" in grid


def test_a_slower_link_is_marked(make_report: Any) -> None:
    job, drawn = _drawn(make_report())
    assert "⚠" not in str(drawn["topology"])
    links = job["topologies"][0]["links"]
    next(link for link in links if link["kind"] == "NVL")["gbytes_per_second"] = 185.4
    marked = str(topology(job["topologies"][0], job))
    assert marked.count("⚠") == 1
    assert "slower than its siblings" in marked


def test_a_slow_pair_is_marked(make_report: Any) -> None:
    _, drawn = _drawn(make_report())
    assert str(drawn["pairs"]).count(">!20<") == 2
    assert "ranks 1 and 3: 20 GB/s · far behind the others" in drawn["pairs"]
    assert "1 pairs far behind" in drawn["pairs"]


def test_a_detour_is_marked(make_report: Any) -> None:
    job, drawn = _drawn(make_report())
    assert "although NVLink joins them" not in str(drawn["topology"])
    edge = {"from": 0, "to": 1, "transport": "SHM", "detail": "", "channels": 2, "ring": False}
    job["edges"] = [edge]
    assert "although NVLink joins them" in str(topology(job["topologies"][0], job))


def test_no_picture_without_facts() -> None:
    job = facts(Job())
    assert rank_grid(job, {}) is None
    assert host_map(job, {}) is None
    assert timeline([]) is None
    assert curves([]) is None


def test_timeline_sets_a_wrong_clock_right() -> None:
    """Rank 1's host is 90 s ahead: its start would lie behind rank 0's end."""
    events: list[Any] = []
    for rank, off in ((0, 0), (1, 90)):
        for seconds, kind in ((off, nccl.CommStart), (off + 1, nccl.CommComplete)):
            speaker = Speaker(host=f"h{rank}", pid=rank, time=START + timedelta(seconds=seconds))
            common = {"line": Line("log", 1, ""), "speaker": speaker}
            event = kind(comm="0x1", rank=rank, nranks=2, comm_id="0xaa", **common)
            events.append((event, rank))
    torch_text = "[rank1]:[E0312 10:12:52.500000000 ProcessGroupNCCL.cpp:689] Watchdog caught …"
    timeout = torch.WatchdogTimeout(
        line=Line("out", 1, torch_text),
        speaker=Speaker(host="h1", rank=1),
        group_rank=1,
        sequence=4,
        op="ALLREDUCE",
        timeout_ms=1,
        ran_ms=2,
    )
    processes = [Process(id=r, host=f"h{r}", pid=r, rank=r) for r in (0, 1)]
    told = facts(Job(processes=processes, events=[*events, (timeout, 1)], world_size=2))
    assert told["clocks"] == {"h1": 90.0}
    assert [e["time"][:19] for e in told["timeline"]] == [
        "2026-03-12T10:11:12",
        "2026-03-12T10:11:12",
        "2026-03-12T10:11:13",
        "2026-03-12T10:11:13",
        "2026-03-12T10:11:22",
    ]


def test_late_start_is_no_wrong_clock() -> None:
    """Rank 0 waits 90 s for rank 1: both are through at the same time."""
    events = []
    for rank, begin in ((0, 0), (1, 90)):
        for seconds, kind in ((begin, nccl.CommStart), (91, nccl.CommComplete)):
            speaker = Speaker(host=f"h{rank}", pid=rank, time=START + timedelta(seconds=seconds))
            common: Any = {"line": Line("log", 1, ""), "speaker": speaker}
            event: Any = kind(comm="0x1", rank=rank, nranks=2, comm_id="0xaa", **common)
            events.append((event, rank))
    processes = [Process(id=r, host=f"h{r}", pid=r, rank=r) for r in (0, 1)]
    assert facts(Job(processes=processes, events=events))["clocks"] == {}


def test_words() -> None:
    assert spans([3, 1, 2, 7, 9, 8, 20, 21]) == "1-3, 7-9, 20, 21"
    assert spans(range(4, 1024, 8)) == "4-1020 in steps of 8"
    assert spans([0, *range(4, 700, 8), *range(708, 1024, 8)]) == (
        "0, 4-692 in steps of 8, 708-1020 in steps of 8"
    )
    assert spans([0, 2, 4]) == "0, 2, 4"
    assert spans([5, 7, 8, 9, 10]) == "5, 7-10"
    assert spans(n * n for n in range(2, 99)).endswith(" and 73 more")
    assert [size(n) for n in (0, 999, 1024, 1536, 4 << 20, 3 << 40)] == [
        "0 B",
        "999 B",
        "1 KiB",
        "1.5 KiB",
        "4 MiB",
        "3 TiB",
    ]
    assert harmless("\x1b[31mred\x1b[0m \u202eabc\x00\ud800") == "red \ufffdabc\ufffd\ufffd"


def test_lanes_show_where_a_rank_stopped_and_how_far_the_others_are() -> None:
    def progress(issued: int) -> dict[str, Any]:
        recent = [f"AllReduce ({n} elements)" for n in range(issued - 7, issued + 1)]
        return {
            "origin": "calls",
            "issued": issued,
            "completed": None,
            "last": recent[-1],
            "recent": recent,
            "first_recent": issued - 7,
            "by_op": {},
            "also": [],
        }

    communicator = {
        **dict.fromkeys(("id", "name"), "c"),
        **dict.fromkeys(("parent", "group", "network", "channels", "divergence")),
        "size": 3,
        "ranks": [5, 6, 7],
        "stages": {},
        "calls": {"0": progress(100), "1": progress(100), "2": progress(40)},
    }
    (shown,) = communicators({"communicators": [communicator]}, [7])
    assert shown["columns"] == [38, 39, 40, 41, 98, 99, 100]
    assert [row["shown"] for row in shown["rows"]] == [[7], [5, 6]]
    assert [c["state"] for c in shown["rows"][0]["cells"]] == ["called"] * 3 + ["missing"] * 4
    assert [c["op"] for c in shown["rows"][1]["cells"]] == ["called"] * 4 + ["AllReduce"] * 3


def test_two_jobs_on_one_page_keep_their_findings_apart(make_report: Any) -> None:
    first, second = make_report(8), make_report(16, word="-b")
    both = replace(first, findings=first.findings[:1], facts=first.facts + second.facts)
    page = render(both)
    assert page.count('href="#cell-bad"') == 1
    assert page.count('href="#cell1-ok"') == 16
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_trees_are_a_layer_of_their_own(make_report: Any) -> None:
    job = make_report(8, 2).facts[0]
    assert job["trees"][0] == {"parent": 0, "child": 1, "channels": 1}
    drawn = str(topology(job["topologies"][0], job))
    assert drawn.count('class="tree"') == 1
    assert "trees: rank 1 below rank 0 in 1 channels" in drawn
    aside = {**job, "edges": [{**e, "ring": False} for e in job["edges"]]}
    assert 'class="ring"' not in str(topology(job["topologies"][0], aside))
