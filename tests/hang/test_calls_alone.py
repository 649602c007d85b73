"""NCCL's call lines and nothing else: the one rank that is a call behind is named, with low confidence."""

from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.report import Report, Status

SKIP = Path(__file__).parents[2] / "sample_logs" / "2.18.3-nodes4-skip"
_CALL = (
    "n1:7{r}:7{r} [{r}] NCCL INFO AllReduce: opCount {n:x} sendbuff 0x1 recvbuff 0x2 count 4096 datatype 7 op 0 root 0 "
    "comm 0x5{r} [nranks={size}] stream 0x3\n"
)
_START = (
    "n1:7{r}:7{r} [{r}] NCCL INFO cudaDriverVersion 12040\n"
    "n1:7{r}:7{r} [{r}] NCCL INFO ncclCommInitRank comm 0x5{r} rank {r} nranks {size} cudaDev {r} nvmlDev {r} busId 6{r} "
    "commId 0xaa - Init {word}\n"
)


def _job(folder: Path, calls: list[int]) -> Report:
    for rank, number in enumerate(calls):
        facts = {"r": rank, "size": len(calls)}
        text = _START.format(word="START", **facts) + _START.format(word="COMPLETE", **facts)
        text += "".join(_CALL.format(n=n, **facts) for n in range(number))
        (folder / f"nccl_{rank}.log").write_text(text)
    return doctor.examine([str(folder)])


def test_recorded_logs_without_the_lines_that_came_when_it_was_ended(tmp_path: Path) -> None:
    for log in SKIP.glob("*.log"):
        lines = log.read_text().splitlines(keepends=True)
        kept = [line for line in lines if "NCCL WARN" not in line and "-> " not in line]
        (tmp_path / log.name).write_text("".join(kept))
    report = doctor.examine([str(tmp_path)])
    assert report.verdict.code == "HANG01" and report.verdict.ranks == (7,)
    assert report.verdict.confidence is Confidence.LOW


@pytest.mark.parametrize("calls", [[9, 8], [9, 9, 9, 8]])
def test_one_rank_is_a_call_behind(tmp_path: Path, calls: list[int]) -> None:
    verdict = _job(tmp_path, calls).verdict
    assert verdict.code == "HANG01" and verdict.ranks == (len(calls) - 1,)
    assert verdict.confidence is Confidence.LOW


@pytest.mark.parametrize("calls", [[20, 20, 20, 8], [9, 8, 9, 8], [12, 11, 10, 9]])
def test_logs_that_may_be_cut_prove_nothing_and_are_no_health(
    tmp_path: Path, calls: list[int]
) -> None:
    report = _job(tmp_path, calls)
    assert report.verdict.status is Status.UNKNOWN, report.verdict.headline
    assert all(finding.severity is Severity.NOTE for finding in report.findings)


def test_level_ranks_are_well(tmp_path: Path) -> None:
    assert _job(tmp_path, [9, 9, 9, 9]).verdict.status is Status.HEALTHY
