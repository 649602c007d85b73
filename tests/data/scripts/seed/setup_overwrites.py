"""A set-up function as articles show it: fixed address, 30 seconds, the global rank as the GPU, no import of datetime."""

import os

import torch
import torch.distributed as dist


def start(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "29500"
    dist.init_process_group(
        backend="nccl",
        rank=rank,
        world_size=world_size,
        timeout=datetime.timedelta(seconds=30),
    )
    torch.cuda.set_device(rank)
