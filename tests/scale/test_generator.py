"""The generator of large logs says what is wrong with what it wrote, and the verdict says the same."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nccldoctor import doctor

GENERATOR = Path(__file__).parents[2] / "benchmarks" / "generate.py"

pytestmark = pytest.mark.skipif(not GENERATOR.exists(), reason="benchmarks are not here")


@pytest.mark.parametrize("fault", ["stop", "wrong"])
def test_truth_beside_the_logs(fault: str, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    words = ["--hosts", "4", "--ranks", "8", "--calls", "700", "--experts", "16"]
    words += [f"--{fault}", "21:512"]  # call 512 is the first of its step, and the experts'
    subprocess.run([sys.executable, str(GENERATOR), str(folder), *words], check=True)
    truth = json.loads((tmp_path / "job.truth.json").read_text())
    (told,) = truth["faults"]
    assert (told["kind"], told["rank"], told["communicator"]) == (fault, 21, "experts")
    assert told["ordinal"] == 2 * 32
    (folder / "rank0.out").write_text(
        "[rank0]:[E1130 04:10:00.000000000 ProcessGroupNCCL.cpp:697] [Rank 0] Watchdog caught collective operation"
        " timeout: WorkNCCL(SeqNum=99, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600004"
        " milliseconds before timing out.\n"
    )
    report = doctor.examine([str(folder)])
    assert report.verdict.code == {"stop": "HANG01", "wrong": "COLL02"}[fault]
    assert report.verdict.ranks == (21,)
    assert {c.size for c in report.jobs[0].communicators} == {4, 8, 16, 32}
    if fault == "wrong":
        assert f"the {told['ordinal'] + 1}th collective" in report.verdict.headline
