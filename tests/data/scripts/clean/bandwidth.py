"""A measurement of all_reduce as it should be: warm-up, many rounds, CUDA events, the slowest rank."""

import os

import torch
import torch.distributed as dist


def measure(size_bytes, rounds=20):
    x = torch.ones(size_bytes // 4, device="cuda")
    for _ in range(5):
        dist.all_reduce(x)
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(rounds):
        dist.all_reduce(x)
    end.record()
    torch.cuda.synchronize()
    seconds = torch.tensor([begin.elapsed_time(end) / 1000 / rounds], device="cuda")
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    n = dist.get_world_size()
    algorithm = size_bytes / seconds.item()
    return algorithm, algorithm * 2 * (n - 1) / n


if __name__ == "__main__":
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
    for power in range(20, 31):
        algbw, busbw = measure(1 << power)
        if dist.get_rank() == 0:
            print(f"{1 << power:>12} {algbw / 1e9:8.2f} {busbw / 1e9:8.2f} GB/s")
    dist.destroy_process_group()
