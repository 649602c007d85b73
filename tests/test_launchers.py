"""One recorded hang, all ranks mixed into one stream the way each launcher or collector writes it: the same verdict."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from nccldoctor.doctor import examine

RUN = Path(__file__).parents[1] / "sample_logs" / "2.28.9-nodes4-skip"
SEAT = re.compile(r"comm 0x\w+ rank (\d+) nranks 8")
NOW = "2026-11-30T04:00:00.123456789Z"


def docker(_: int, text: str) -> str:
    return json.dumps({"log": text + "\n", "stream": "stderr", "time": NOW})


STYLES: dict[str, Callable[[int, str], str]] = {
    "nothing": lambda _, text: text,
    "srun, a task a rank": lambda rank, text: f"{rank}: {text}",
    "srun, a task a node": lambda rank, text: f"{rank // 2}: {text}",
    "Open MPI": lambda rank, text: f"[1,{rank}]<stdout>:{text}",
    "Hydra": lambda rank, text: f"[{rank}] {text}",
    "pdsh": lambda rank, text: f"node{rank // 2:02d}: {text}",
    "torchrun": lambda rank, text: f"[default{rank % 2}]:{text}",
    "kubectl": lambda rank, text: f"[pod/job-worker-{rank}/pytorch] {NOW} {text}",
    "stern": lambda rank, text: f"job-worker-{rank} pytorch {text}",
    "compose": lambda rank, text: f"worker-{rank}  | {text}",
    "CRI": lambda _, text: f"{NOW} stderr F {text}",
    "docker": docker,
    "Ray": lambda rank, text: (
        f"\x1b[36m(Worker pid={4000 + rank}, ip=192.0.2.{rank})\x1b[0m {text}"
    ),
    "journal": lambda rank, text: (
        f"Nov 30 04:00:00 machine-{rank // 2} train[{123 + rank}]: {text}"
    ),
    "a ticket's quote": lambda _, text: f"> {text}",
}


def mixed(style: Callable[[int, str], str]) -> str:
    """The lines of all ranks, each in its order, shuffled into each other."""
    queues = []
    for path in sorted(RUN.glob("*.log")):
        text = path.read_text()
        seat = SEAT.search(text)
        assert seat is not None
        queues.append([style(int(seat[1]), line) for line in text.splitlines()])
    for path in sorted(RUN.glob("rank*.out")):
        rank = int(re.sub(r"\D", "", path.stem))
        queues.append([style(rank, line) for line in path.read_text().splitlines() if line])
    order = [which for which, lines in enumerate(queues) for _ in lines]
    random.Random(1).shuffle(order)
    return "".join(queues[which].pop(0) + "\n" for which in order)


@pytest.mark.parametrize("style", STYLES)
def test_the_verdict_does_not_depend_on_the_launcher(style: str, tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(mixed(STYLES[style]))
    report = examine([str(path)])
    assert report.verdict.code == "HANG01"
    assert report.verdict.ranks == (7,)
    assert report.verdict.hosts == ("gpu-node-04",)
    assert report.coverage.ratio >= 0.99
