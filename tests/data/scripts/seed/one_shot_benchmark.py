"""A bandwidth from one call without warm-up, and a formula with factors from nowhere."""

import time

import torch
import torch.distributed as dist


def bandwidth(size_mb=100):
    tensor = torch.randn(size_mb * 1024 * 1024 // 4, device="cuda")
    dist.barrier()
    start = time.time()
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    end = time.time()
    if dist.get_rank() == 0:
        print(f"Bandwidth: {(size_mb * 2) / (end - start) * 2 * 2:.2f} MB/s")
