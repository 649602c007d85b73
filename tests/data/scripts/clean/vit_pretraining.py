"""A self-supervised ViT trainer in the style of the research code: helpers in one file, mean of a scalar over ranks."""

import math
import sys
import time

import torch
import torch.distributed as dist


def all_reduce_mean(x):
    world_size = dist.get_world_size()
    if world_size > 1:
        x_reduce = torch.tensor(x).cuda()
        dist.all_reduce(x_reduce)
        x_reduce /= world_size
        return x_reduce.item()
    return x


class SmoothedValue:
    def synchronize_between_processes(self):
        if not (dist.is_available() and dist.is_initialized()):
            return
        t = torch.tensor([self.count, self.total], dtype=torch.float64, device="cuda")
        dist.barrier()
        dist.all_reduce(t)
        self.count, self.total = int(t[0].item()), t[1].item()


def train_one_epoch(model, loader, optimizer, loss_scaler, accum_iter, log_writer):
    start = time.time()
    for step, (samples, _) in enumerate(loader):
        loss, _, _ = model(samples)
        loss_value = loss.item()
        if not math.isfinite(loss_value):
            print(f"Loss is {loss_value}, stopping training")
            sys.exit(1)
        loss_scaler(loss / accum_iter, optimizer, update_grad=(step + 1) % accum_iter == 0)
        torch.cuda.synchronize()
        loss_value_reduce = all_reduce_mean(loss_value)
        if log_writer is not None and (step + 1) % accum_iter == 0:
            log_writer.add_scalar("train_loss", loss_value_reduce, step)
    print("epoch took", time.time() - start)


@torch.no_grad()
def concat_all_gather(tensor):
    gathered = [torch.ones_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, tensor, async_op=False)
    return torch.cat(gathered, dim=0)


@torch.no_grad()
def shuffle_batch(x):
    batch_size_this = x.shape[0]
    x_gather = concat_all_gather(x)
    idx_shuffle = torch.randperm(x_gather.shape[0], device=x.device)
    dist.broadcast(idx_shuffle, src=0)
    gpu_idx = dist.get_rank()
    return x_gather[idx_shuffle.view(-1, batch_size_this)[gpu_idx]]
