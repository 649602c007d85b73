"""Parts of one rotated log are one log, in whatever order they are given; a restart is not a part."""

import gzip
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.model.job import Job, Origin
from nccldoctor.model.report import Report

SAMPLES = Path(__file__).parent.parent / "sample_logs"
NAMES: dict[str, Callable[[str, int, int], str]] = {
    "numbered": lambda name, age, _: f"{name}.{age}" if age else name,
    "packed": lambda name, age, _: f"{name}.{age}.gz" if age else name,
    "dated": lambda name, age, _: f"{name}-202611{30 - age:02d}" if age else name,
    "meaningless": lambda name, age, _: f"{name}.{'bac'[age]}",
}


def _rotate(text: bytes, parts: int, choose: random.Random) -> list[bytes]:
    """The log in parts, oldest first, cut at lines behind the set-up."""
    lines = text.splitlines(keepends=True)
    calls = [n for n, line in enumerate(lines) if b" opCount " in line]
    cuts = sorted(choose.sample(calls[1:], min(parts - 1, len(calls) - 1)))
    bounds = [0, *cuts, len(lines)]
    return [b"".join(lines[a:b]) for a, b in pairwise(bounds)]


def _write(folder: Path, name: str, parts: Sequence[bytes], how: str) -> None:
    for age, part in enumerate(reversed(parts)):
        path = folder / NAMES[how](name, age, len(parts))
        path.write_bytes(gzip.compress(part) if path.suffix == ".gz" else part)


def _counts(report: Report) -> list[tuple[str, int, int, str]]:
    (job,) = report.jobs
    return [
        (lane.communicator, lane.rank, lane.issued, str(lane.last))
        for lane in job.lanes
        if lane.origin is Origin.CALLS
    ]


@pytest.mark.parametrize("how", ["numbered", "packed", "dated"])
@pytest.mark.parametrize(
    "folder", ["2.28.9-nodes4-skip", "2.28.9-wrong-op", "2.28.9-nodes4-healthy", "2.18.3-healthy"]
)
def test_parts_are_read_as_one_log(folder: str, how: str, tmp_path: Path) -> None:
    choose = random.Random(f"{folder} {how}")
    for file in sorted((SAMPLES / folder).iterdir()):
        data = file.read_bytes()
        if file.name.startswith("nccl_debug"):
            _write(tmp_path, file.name, _rotate(data, 3, choose), how)
        elif file.name != "scenario.json":
            (tmp_path / file.name).write_bytes(data)
    whole, parts = doctor.examine([str(SAMPLES / folder)]), doctor.examine([str(tmp_path)])
    assert _counts(parts) == _counts(whole)
    assert (parts.verdict.code, parts.verdict.ranks) == (whole.verdict.code, whole.verdict.ranks)


CALL = "n1:71:71 [0] NCCL INFO AllReduce: opCount {:x} sendbuff 0x7f1 recvbuff 0x7f1 count {} datatype 7 op 0 root 0 comm 0x51 [nranks=1] stream 0x9\n"
INIT = "n1:71:71 [0] NCCL INFO ncclCommInitRank comm 0x51 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 60 commId 0x{} - Init COMPLETE\n"


def _calls(first: int, last: int, numbered: bool = True) -> str:
    return "".join(CALL.format(n if numbered else 0, 1000 + n) for n in range(first, last))


def _jobs(folder: Path, **files: str) -> tuple[Job, ...]:
    for name, text in files.items():
        (folder / name).write_text(text)
    return doctor.examine([str(folder)]).jobs


def test_order_by_nccls_own_numbers(tmp_path: Path) -> None:
    (job,) = _jobs(
        tmp_path, c=INIT.format("aa") + _calls(0, 4), b=_calls(4, 2000), a=_calls(2000, 5000)
    )
    (lane,) = job.lanes
    assert (lane.issued, lane.last.count if lane.last else 0) == (5000, 5999)
    assert lane.recent[0].count == 1000 + lane.first_recent - 1


def test_a_restart_with_the_same_pid_is_not_joined(tmp_path: Path) -> None:
    jobs = _jobs(tmp_path, a=INIT.format("aa") + _calls(0, 40), b=INIT.format("bb") + _calls(0, 30))
    issued = {lane.communicator: lane.issued for job in jobs for lane in job.lanes}
    assert issued == {"0xaa": 40, "0xbb": 30}


def test_a_part_that_ends_one_communicator_and_begins_the_next(tmp_path: Path) -> None:
    jobs = _jobs(
        tmp_path,
        a=INIT.format("aa") + _calls(0, 40),
        b=_calls(40, 50) + INIT.format("bb") + _calls(0, 7),
    )
    issued = {lane.communicator: lane.issued for job in jobs for lane in job.lanes}
    assert issued == {"0xaa": 50, "0xbb": 7}


def test_a_copy_of_the_end_counts_once(tmp_path: Path) -> None:
    (job,) = _jobs(tmp_path, a=INIT.format("aa") + _calls(0, 40), b=_calls(30, 40))
    assert [lane.issued for lane in job.lanes] == [40]


def test_a_log_without_its_middle_is_not_counted(tmp_path: Path) -> None:
    hole = "[nccldoctor: 1,234,567 bytes left out here]\n"
    (job,) = _jobs(
        tmp_path,
        a=INIT.format("aa")
        + _calls(0, 40)
        + hole
        + _calls(90, 99)
        + INIT.format("bb")
        + _calls(0, 3),
    )
    assert {lane.communicator: lane.issued for lane in job.lanes} == {"0xbb": 3}
