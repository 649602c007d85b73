"""One rank of a small job in which, by the mode in its first argument, the last rank goes wrong."""

import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

FOREVER = 3600.0


def all_reduce(device: Any, times: int) -> None:
    x = torch.ones(1 << 12, device=device)
    for _ in range(times):
        dist.all_reduce(x)
        settle(device)


def settle(device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def healthy(device: Any, odd: bool) -> None:
    all_reduce(device, 20)


def sleep(device: Any, odd: bool) -> None:
    if odd:
        time.sleep(FOREVER)


def stop(device: Any, odd: bool) -> None:
    if odd:
        os.kill(os.getpid(), signal.SIGSTOP)


def wrong_op(device: Any, odd: bool) -> None:
    x = torch.ones(1 << 12, device=device)
    if odd:
        dist.broadcast(x, 0)
    else:
        dist.all_reduce(x)
    settle(device)


def wrong_size(device: Any, odd: bool) -> None:
    dist.all_reduce(torch.ones(1 << (13 if odd else 12), device=device))
    settle(device)


def group_order(device: Any, odd: bool) -> None:
    everyone = list(range(dist.get_world_size()))
    groups = [dist.new_group(everyone), dist.new_group(everyone)]
    x = torch.ones(1 << 12, device=device)
    for group in groups:
        dist.all_reduce(x, group=group)
    settle(device)
    for group in reversed(groups) if odd else groups:
        dist.all_reduce(x, group=group)
        settle(device)


def throw(device: Any, odd: bool) -> None:
    if odd:
        raise ValueError("bad batch: label out of range")


def leave(device: Any, odd: bool) -> None:
    if odd:
        os._exit(7)


def kill(device: Any, odd: bool) -> None:
    if odd:
        os.kill(os.getpid(), signal.SIGKILL)


def segv(device: Any, odd: bool) -> None:
    if odd:
        os.kill(os.getpid(), signal.SIGSEGV)


MODES: dict[str, Callable[[Any, bool], None]] = {
    "healthy": healthy,
    "sleep": sleep,
    "stop": stop,
    "wrong-op": wrong_op,
    "wrong-size": wrong_size,
    "group-order": group_order,
    "raise": throw,
    "exit": leave,
    "kill": kill,
    "segv": segv,
}


def main() -> None:
    """`worker.py MODE cpu|cuda FILE`: the moment of the fault is written into FILE."""
    mode, kind, file = sys.argv[1:4]
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    odd = rank == world - 1
    device = torch.device("cpu")
    if kind == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    if mode == "late" and odd:
        Path(file).write_text(str(time.time()))
        time.sleep(FOREVER)
    backend = "nccl" if kind == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=timedelta(minutes=30))
    all_reduce(device, 3)
    if odd:
        Path(file).write_text(str(time.time()))
    MODES[mode](device, odd)
    all_reduce(device, 2)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
