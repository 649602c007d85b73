"""Flight recorders as JSON, the other form that PyTorch writes, lead to the same verdicts as the pickles."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from nccldoctor import doctor

SAMPLES = Path(__file__).parents[2] / "sample_logs"


@pytest.mark.parametrize(
    ("folder", "code"), [("recorder-p2p-circle", "COLL04"), ("recorder-slow-rank", "HANG03")]
)
def test_json_says_the_same(folder: str, code: str, tmp_path: Path) -> None:
    for dump in sorted((SAMPLES / folder).iterdir()):
        data = pickle.loads(dump.read_bytes())  # noqa: S301  (the project's own sample)
        (tmp_path / f"{dump.name}.json").write_text(json.dumps(_as_json(data), sort_keys=True))
    assert code in {f.code for f in doctor.examine([str(tmp_path)]).findings}


def _as_json(dump: dict[str, Any]) -> dict[str, Any]:
    """As PyTorch renders it: no stacks, 0 for None, numbers of pg_status as strings."""
    entries = [
        {k: 0 if v is None else v for k, v in entry.items() if k != "frames"}
        for entry in dump["entries"]
    ]
    status = {
        group: {k: str(v) for k, v in counts.items()}
        for group, counts in dump.get("pg_status", {}).items()
    }
    return {**dump, "entries": entries, "pg_status": status}
