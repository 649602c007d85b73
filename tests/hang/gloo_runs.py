"""Runs small Gloo jobs that go wrong: `gloo_runs.py FOLDER SCENARIO…` leaves outputs, dumps and stacks of each behind.

PyTorch is imported once; every rank of every scenario is a fork. After a few seconds a thread of each rank dumps the
flight recorder and the stacks, as a watchdog would, and ends the process.
"""

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

os.environ["TORCH_FR_BUFFER_SIZE"] = "2000"
os.environ["GLOO_SOCKET_IFNAME"] = "lo"

import torch
import torch.distributed as dist

RANKS = 3
ODD = 1
SECONDS = 8.0
"""Until a rank counts as stuck; a machine that is busy with other tests needs that long."""
AT_ONCE = 3


def steps(number: int = 2) -> None:
    for _ in range(number):
        dist.all_reduce(torch.ones(8))


def wait_elsewhere() -> None:
    while True:
        time.sleep(0.1)


def ok(rank: int) -> None:
    steps(4)
    dist.barrier()


def missing(rank: int) -> None:
    steps()
    if rank == ODD:
        wait_elsewhere()
    dist.all_reduce(torch.ones(16))


def wrong_op(rank: int) -> None:
    steps()
    if rank == ODD:
        dist.broadcast(torch.ones(16), 0)
        wait_elsewhere()
    dist.all_reduce(torch.ones(16))


def wrong_size(rank: int) -> None:
    steps()
    dist.all_reduce(torch.ones(16 if rank != ODD else 4096))


def group_order(rank: int) -> None:
    first, second = dist.new_group([0, 1]), dist.new_group([0, 1])
    if rank > 1:
        wait_elsewhere()
    for group in (first, second) * 2:
        dist.all_reduce(torch.ones(8), group=group)
    for group in (first, second) if rank == 0 else (second, first):
        dist.all_reduce(torch.ones(8), group=group)


def dead(rank: int) -> None:
    steps()
    if rank == ODD:
        os._exit(7)
    dist.all_reduce(torch.ones(16))


def stopped(rank: int) -> None:
    steps()
    if rank == ODD:
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(torch.ones(16))


def exception(rank: int) -> None:
    steps()
    if rank == ODD:
        raise ValueError("bad batch 17")
    dist.all_reduce(torch.ones(16))


def some_create_group(rank: int) -> None:
    steps()
    if rank != ODD:
        dist.new_group([0, 1, 2])
    wait_elsewhere()


SCENARIOS: dict[str, Callable[[int], None]] = {
    "ok": ok,
    "missing": missing,
    "wrong_op": wrong_op,
    "wrong_size": wrong_size,
    "group_order": group_order,
    "dead": dead,
    "stopped": stopped,
    "exception": exception,
    "some_create_group": some_create_group,
}


def watch(folder: Path, rank: int) -> None:
    """Writes what a watchdog would write, and ends the process when every rank has had its time to do so."""
    time.sleep(SECONDS)
    os.kill(os.getpid(), signal.SIGUSR2)
    dump(folder, rank)
    time.sleep(SECONDS / 2)
    os._exit(3)


def dump(folder: Path, rank: int) -> None:
    (folder / f"fr_rank_{rank}").write_bytes(torch._C._distributed_c10d._dump_fr_trace())


def be(folder: Path, rank: int, scenario: str) -> None:
    """One rank: its output goes to `rankN.out`."""
    out = os.open(folder / f"rank{rank}.out", os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(out, 1)
    os.dup2(out, 2)
    faulthandler.register(signal.SIGUSR2, all_threads=False)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/../{scenario}.store", rank=rank, world_size=RANKS
    )
    threading.Thread(target=watch, args=(folder, rank), daemon=True).start()
    code = 0
    try:
        SCENARIOS[scenario](rank)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stderr.flush()
    dump(folder, rank)
    os._exit(code)


def run_together(folder: Path, scenarios: list[str]) -> None:
    """Forks all ranks of some scenarios and waits for them; what a stop holds for ever is ended at last."""
    started: dict[int, str] = {}
    for scenario in scenarios:
        (folder / scenario).mkdir()
        for rank in range(RANKS):
            pid = os.fork()
            if pid == 0:
                be(folder / scenario, rank, scenario)
            started[pid] = scenario
    deadline = time.monotonic() + SECONDS + 45
    while started and time.monotonic() < deadline:
        pid, _ = os.waitpid(-1, os.WNOHANG)
        if pid:
            started.pop(pid, None)
        elif set(started.values()) == {"stopped"} and len(started) == 1:
            break
        else:
            time.sleep(0.05)
    for pid in started:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def main() -> None:
    folder, scenarios = Path(sys.argv[1]), sys.argv[2:]
    for first in range(0, len(scenarios), AT_ONCE):
        run_together(folder, scenarios[first : first + AT_ONCE])


if __name__ == "__main__":
    main()
