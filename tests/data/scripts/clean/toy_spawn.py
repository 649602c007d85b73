"""The DDP tutorial: processes of one host, started by the script itself."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def demo_checkpoint(rank, world_size):
    setup(rank, world_size)
    model = build().to(rank)
    ddp_model = DDP(model, device_ids=[rank])
    if rank == 0:
        torch.save(ddp_model.state_dict(), "model.checkpoint")
    dist.barrier()
    ddp_model.load_state_dict(torch.load("model.checkpoint", map_location={"cuda:0": f"cuda:{rank}"}))
    dist.barrier()
    if rank == 0:
        os.remove("model.checkpoint")
    dist.destroy_process_group()


if __name__ == "__main__":
    n = torch.accelerator.device_count()
    mp.spawn(demo_checkpoint, args=(n,), nprocs=n, join=True)
