"""Writes flight-recorder dumps of an invented job, byte for byte as PyTorch writes them, format 2.10.

`python benchmarks/recorder_dumps.py FOLDER --ranks 1024 --entries 2000`: one rank stays away from the last collective.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch_pickle

TENSOR = 8
STEP = (
    ("tensor", "_all_gather_base", [[1 << 16]], [[1 << 19]], "BFloat16", 120),
    ("tensor", "_reduce_scatter_base", [[1 << 19]], [[1 << 16]], "BFloat16", 131),
    ("data", "all_reduce", [[4096, 1024]], [[4096, 1024]], "Float", 140),
    ("world", "all_reduce", [[1]], [[1]], "Float", 155),
)
START_NS = 1_796_018_063_000_000_000
TORCH = "/usr/lib/python3/site-packages/torch/distributed"
SCRIPT = "/home/user/train.py"
STACKS = [
    [
        torch_pickle.Shared(name=name, filename=f"{TORCH}/distributed_c10d.py", line=3068),
        torch_pickle.Shared(name="wrapper", filename=f"{TORCH}/c10d_logger.py", line=83),
        torch_pickle.Shared(name="step", filename=SCRIPT, line=line),
        torch_pickle.Shared(name="<module>", filename=SCRIPT, line=210),
    ]
    for _, name, *_, line in STEP
]


def groups(rank: int, ranks: int) -> dict[str, tuple[str, list[int]]]:
    """Role → (name, members): the world, a tensor-parallel block of 8 neighbours, a data-parallel stride of 8."""
    block, lane = rank // TENSOR, rank % TENSOR
    return {
        "world": ("0", list(range(ranks))),
        "tensor": (str(1 + block), list(range(block * TENSOR, (block + 1) * TENSOR))),
        "data": (str(1 + ranks // TENSOR + lane), list(range(lane, ranks, TENSOR))),
    }


def dump(rank: int, ranks: int, entries: int, culprit: int | None) -> dict[str, Any]:
    """The dump of one rank; the culprit never issues the last collective, which is one of the world."""
    number = entries - (rank == culprit)
    done = number if rank == culprit else number - 1
    own = groups(rank, ranks)
    counts = {role: sum(step[0] == role for step in _cycle(number)) for role in own}
    status = {}
    for ident, role in enumerate(own):
        pending = done < number and role == "world"
        status[str(ident)] = {
            "last_enqueued_collective": counts[role],
            "last_started_collective": -1,
            "last_completed_collective": counts[role] - pending,
        }
    return {
        "version": "2.10",
        "comm_lib_version": "2.28.9",
        "pg_config": {
            name: {
                "name": name,
                "desc": "default_pg" if role == "world" else role,
                "ranks": str(members),
            }
            for role, (name, members) in own.items()
        },
        "pg_status": status,
        "entries": list(_entries(rank, own, number, done)),
    }


def _cycle(number: int) -> Iterator[tuple[str, str, Any, Any, str, int]]:
    return (STEP[n % len(STEP)] for n in range(number))


def _entries(
    rank: int, own: dict[str, tuple[str, list[int]]], number: int, done: int
) -> Iterator[dict[str, Any]]:
    sequence = dict.fromkeys(own, 0)
    roles = list(own)
    for n, (role, name, inputs, outputs, dtype, _) in enumerate(_cycle(number)):
        sequence[role] += 1
        created = START_NS + n * 2_000_000 + rank * 1000
        ended = n < done
        yield {
            "frames": STACKS[n % len(STEP)],
            "record_id": n,
            "pg_id": roles.index(role),
            "process_group": (own[role][0], "default_pg" if role == "world" else role),
            "thread_name": "python3",
            "thread_id": "139707423560000",
            "collective_seq_id": sequence[role],
            "p2p_seq_id": 0,
            "op_id": sequence[role],
            "profiling_name": f"nccl:{name}",
            "time_created_ns": created,
            "input_sizes": [list(size) for size in inputs],
            "input_dtypes": [dtype],
            "output_sizes": [list(size) for size in outputs],
            "output_dtypes": [dtype],
            "state": "completed" if ended else "scheduled",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": created + 900_000 if ended else None,
            "retired": ended,
            "timeout_ms": 600_000,
            "is_p2p": False,
        }


def write(folder: Path, ranks: int, entries: int, culprit: int | None) -> int:
    """Writes one file a rank; returns the bytes written."""
    folder.mkdir(parents=True, exist_ok=True)
    size = 0
    for rank in range(ranks):
        data = torch_pickle.dumps(dump(rank, ranks, entries, culprit))
        (folder / f"nccl_trace_rank_{rank}").write_bytes(data)
        size += len(data)
    return size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--culprit", type=int)
    given = parser.parse_args()
    culprit = given.ranks * 3 // 4 if given.culprit is None else given.culprit
    size = write(given.folder, given.ranks, given.entries, culprit)
    print(
        f"{given.ranks} dumps, {size / 1e6:.0f} MB; rank {culprit} stays away from #{given.entries}"
    )


if __name__ == "__main__":
    main()
