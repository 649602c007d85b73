"""A small training job in which one rank goes wrong: after some steps its data loader stands still.

    nccldoctor run --nproc 2 --hang-timeout 10 --run-dir demo-run examples/demo_train.py

NCCL where every rank has a GPU of its own, else Gloo on the CPU. `--stall-rank -1` lets it finish.
"""

import argparse
import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def batches(steps: int, stall: bool, device: torch.device) -> Iterator[torch.Tensor]:
    """Random batches; where `stall` is set the source dries up half-way, and nobody notices."""
    for step in range(steps):
        if stall and step == steps // 2:
            wait_for_storage()
        yield torch.randn(32, 64, device=device)


def wait_for_storage() -> None:
    """Stands for a mount that does not answer."""
    time.sleep(3600)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--stall-rank", type=int, default=1)
    chosen = parser.parse_args()
    local_rank, local_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if torch.cuda.is_available() and torch.cuda.device_count() >= local_size:
        device, backend = torch.device("cuda", local_rank), "nccl"
        torch.cuda.set_device(device)
    else:
        device, backend = torch.device("cpu"), "gloo"
    dist.init_process_group(backend)
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)).to(
            device
        )
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, batch in enumerate(batches(chosen.steps, rank == chosen.stall_rank, device)):
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 10 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
        time.sleep(0.02)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
