"""A small Gloo job on the CPU in which, by its first argument, the last rank goes wrong."""

import io
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

MODE = sys.argv[1]


class SlowDisk(io.BytesIO):
    """Takes so many seconds for its first bytes, and is visibly busy meanwhile."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds

    def write(self, data: bytes) -> int:
        with Path(os.devnull).open("wb", buffering=0) as sink:
            while time.monotonic() < self.until:
                sink.write(bytes(1 << 18))
                time.sleep(0.02)
        return super().write(data)


def all_reduce(times: int) -> None:
    x = torch.ones(256)
    for _ in range(times):
        dist.all_reduce(x)


def go_wrong() -> None:
    if MODE == "sleep":
        time.sleep(1000)
    elif MODE == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif MODE == "wrong_op":
        dist.broadcast(torch.ones(256), 0)
    elif MODE == "raise":
        raise ValueError("bad batch: label out of range")
    elif MODE == "exit":
        os._exit(7)
    elif MODE == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif MODE == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)


if MODE == "flaky":  # without groups: Gloo's own meeting after a restart fails now and then
    print("logs", os.environ["NCCL_DEBUG_SUBSYS"].rpartition(",")[2], flush=True)
    time.sleep(1)
    os._exit(7 if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" else 0)
if MODE == "twice":
    time.sleep(1 if os.environ["RANK"] == "1" else 1000)
    os._exit(7 + int(os.environ["TORCHELASTIC_RESTART_COUNT"]))
if MODE == "late" and os.environ["RANK"] == "1":
    time.sleep(1000)
dist.init_process_group("gloo")
all_reduce(3)
if MODE == "fork" and os.fork() == 0:
    os.setsid()
    time.sleep(1000)
if MODE == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
print("ready", flush=True)
if MODE in ("wait", "stubborn"):
    while True:
        all_reduce(1)
        time.sleep(0.05)
if MODE == "flood":
    for number in range(40000):
        print(f"line {number} {'x' * 100}")
if MODE == "checkpoint" and dist.get_rank() == 1:
    torch.save({"weights": torch.ones(1 << 16)}, SlowDisk(7))
if dist.get_rank() == dist.get_world_size() - 1:
    go_wrong()
all_reduce(2)
dist.destroy_process_group()
