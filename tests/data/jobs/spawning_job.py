"""A job that makes its ranks itself, with no launcher's variables; rank 1 never comes to the last call."""

import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    x = torch.ones(16)
    for _ in range(3):
        dist.all_reduce(x)
    if rank == 1:
        time.sleep(1000)
    dist.all_reduce(x)


if __name__ == "__main__":
    mp.spawn(work, args=(sys.argv[1],), nprocs=2)
