"""Small flight-recorder dumps for tests, and the report on them."""

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from nccldoctor import doctor
from nccldoctor.model.finding import Finding, Severity
from nccldoctor.model.report import Report
from nccldoctor.model.source import Kind, Source
from nccldoctor.parse import recorder

Entry = dict[str, Any]


def entry(name: str, sequence: int = 1, **changes: Any) -> Entry:
    """An all_reduce of 4 x 4 floats, or what `changes` make of it."""
    made: Entry = {
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "op_id": sequence,
        "profiling_name": name if ":" in name else f"nccl:{name}",
        "input_sizes": [[4, 4]],
        "output_sizes": [[4, 4]],
        "input_dtypes": ["Float"],
        "output_dtypes": ["Float"],
        "time_created_ns": 1_800_000_000_000_000_000 + sequence,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "timeout_ms": 600_000,
        "state": "scheduled",
        "retired": False,
        "is_p2p": False,
        "frames": [{"name": "step", "filename": "train.py", "line": 7}],
    }
    return made | changes


def dump(
    entries: Sequence[Entry], groups: Mapping[str, Sequence[int]], **top: Any
) -> dict[str, Any]:
    """A dump with these entries, numbered in their order."""
    numbered = [{"record_id": number, **e} for number, e in enumerate(entries)]
    config = {
        name: {
            "name": name,
            "desc": "default_pg" if name == "0" else "sub",
            "ranks": str(list(ranks)),
        }
        for name, ranks in groups.items()
    }
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": numbered, **top}


def report(files: Mapping[str, dict[str, Any] | bytes]) -> Report:
    """The report on these dumps, by file name."""
    digests = []
    for path, content in files.items():
        data = content if isinstance(content, bytes) else pickle.dumps(content, 2)
        digests.append(recorder.read(Source(path, Kind.RECORDER, len(data)), data))
    return doctor.conclude(digests)


def of_ranks(*ranks: Sequence[Entry], groups: Mapping[str, Sequence[int]] | None = None) -> Report:
    """The report on one dump a rank, all in one group unless `groups` says otherwise."""
    known = groups or {"0": range(len(ranks))}
    return report(
        {
            f"fr_rank_{rank}": dump(
                entries, {n: members for n, members in known.items() if rank in members}
            )
            for rank, entries in enumerate(ranks)
        }
    )


def loud(found: Report) -> list[Finding]:
    """Findings above note."""
    assert not [n for n in found.not_checked if "internal error" in n.because]
    return [f for f in found.findings if f.severity is not Severity.NOTE]


def verdict(found: Report) -> tuple[str | None, tuple[int, ...]]:
    """(code, ranks) on top."""
    loud(found)
    return found.verdict.code, found.verdict.ranks
