"""What is read of the recorded runs of each NCCL version stays what it was.

After a change that is meant: `python tests/parse/test_golden.py`, and look at the difference.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from nccldoctor.evidence.discover import discover
from nccldoctor.model.source import Kind
from nccldoctor.parse import digest_input

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_suffix(".json")
RUNS = sorted(p.name for p in (ROOT / "sample_logs").iterdir() if p.is_dir())
GOLDEN_RUNS = [run for run in RUNS if "nodes4" not in run and run[:1].isdigit()]
KINDS = {
    "Version",
    "CommStart",
    "CommComplete",
    "CommGone",
    "BootstrapInterface",
    "NetworkChosen",
    "Edge",
    "DuplicateGpu",
    "NoInterface",
    "VersionMismatch",
}


def parsed(run: str) -> dict[str, Any]:
    """How many events of the main kinds, and the call tables, of each log of a run."""
    result: dict[str, Any] = {}
    for item in discover([str(ROOT / "sample_logs" / run)]):
        for digest in digest_input(item):
            if digest.source.kind is not Kind.LOG:
                continue
            kinds = Counter(type(event).__name__ for event in digest.events)
            name = Path(digest.source.path).relative_to(ROOT / "sample_logs" / run)
            result[str(name)] = {
                "lines": digest.source.lines,
                "records": digest.coverage.records,
                "calls": [f"{t.generation}: {t.count} last {t.last}" for t in digest.calls],
                "events": {k: n for k, n in sorted(kinds.items()) if k in KINDS},
            }
    return dict(sorted(result.items()))


@pytest.mark.parametrize("run", GOLDEN_RUNS)
def test_run_is_read_as_before(run: str) -> None:
    assert parsed(run) == json.loads(GOLDEN.read_text())[run]


@pytest.mark.parametrize("run", RUNS)
def test_all_but_one_record_in_a_hundred_is_understood(run: str) -> None:
    for item in discover([str(ROOT / "sample_logs" / run)]):
        for digest in digest_input(item):
            assert digest.coverage.ratio >= 0.99, digest.coverage.unknown


if __name__ == "__main__":
    GOLDEN.write_text(
        "{\n"
        + ",\n".join(f"{json.dumps(run)}: {json.dumps(parsed(run))}" for run in GOLDEN_RUNS)
        + "\n}\n"
    )
