"""A detector trainer: rank 0 prepares data while the others wait, loss averaged, checkpoints on rank -1 or 0."""

import os
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

LOCAL_RANK = int(os.getenv("LOCAL_RANK", -1))
RANK = int(os.getenv("RANK", -1))
WORLD_SIZE = int(os.getenv("WORLD_SIZE", 1))


@contextmanager
def torch_distributed_zero_first(local_rank):
    if local_rank not in [-1, 0]:
        dist.barrier(device_ids=[local_rank])
    yield
    if local_rank == 0:
        dist.barrier(device_ids=[0])


def train(hyp, opt, device):
    with torch_distributed_zero_first(LOCAL_RANK):
        data_dict = check_dataset(opt.data)
    model = make(hyp).to(device)
    cuda = device.type != "cpu"
    if cuda and RANK == -1 and torch.cuda.device_count() > 1:
        model = torch.nn.DataParallel(model)
    if cuda and RANK != -1:
        model = DDP(model, device_ids=[LOCAL_RANK], output_device=LOCAL_RANK)
    for epoch in range(opt.epochs):
        if RANK != -1:
            loader(data_dict).sampler.set_epoch(epoch)
        for images, targets in loader(data_dict):
            loss, items = compute_loss(model(images), targets)
            if RANK != -1:
                loss *= WORLD_SIZE
            loss.backward()
            if RANK in {-1, 0}:
                print(epoch, items)
        stop = False
        if RANK in {-1, 0}:
            fitness = validate(model)
            stop = early(epoch, fitness)
            torch.save(model, "last.pt")
        if RANK != -1:
            broadcast_list = [stop if RANK == 0 else None]
            dist.broadcast_object_list(broadcast_list, 0)
            if RANK != 0:
                stop = broadcast_list[0]
        if stop:
            break


def main(opt, device):
    if LOCAL_RANK != -1:
        torch.cuda.set_device(LOCAL_RANK)
        device = torch.device("cuda", LOCAL_RANK)
        dist.init_process_group(
            backend="nccl" if dist.is_nccl_available() else "gloo", timeout=timedelta(seconds=600)
        )
    train({}, opt, device)
    if WORLD_SIZE > 1 and RANK == 0:
        dist.destroy_process_group()
