"""Ranks that decide together: stopping, skipping a bad step, and who has which file."""

import os
import time

import torch
import torch.distributed as dist


def stop_together(start, limit_seconds, device):
    flag = torch.tensor([float(time.time() - start > limit_seconds)], device=device)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return flag.item() > 0


def skip_together(loss, device):
    bad = (~torch.isfinite(loss)).float().to(device)
    dist.all_reduce(bad, op=dist.ReduceOp.MAX)
    return bool(bad.item())


def newest_checkpoint(folder):
    box = [None]
    if dist.get_rank() == 0:
        box = [max(os.listdir(folder), default=None)]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def train(loader, model, optimizer, device, start):
    for step, batch in enumerate(loader):
        loss = model(batch)
        if skip_together(loss, device):
            continue
        loss.backward()
        optimizer.step()
        if step % 100 == 0 and stop_together(start, 3600, device):
            save(model)
            dist.barrier()
            return


def save(model):
    try:
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), "model.pt")
    finally:
        dist.barrier()
