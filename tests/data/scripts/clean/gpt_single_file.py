"""A one-file GPT trainer: DDP under torchrun or one process, gradient accumulation, rank 0 logs and saves."""

import os
import time
from contextlib import nullcontext

import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP

backend = "nccl"
gradient_accumulation_steps = 40
ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    init_process_group(backend=backend)
    ddp_rank = int(os.environ["RANK"])
    ddp_local_rank = int(os.environ["LOCAL_RANK"])
    ddp_world_size = int(os.environ["WORLD_SIZE"])
    device = f"cuda:{ddp_local_rank}"
    torch.cuda.set_device(device)
    master_process = ddp_rank == 0
    seed_offset = ddp_rank
    assert gradient_accumulation_steps % ddp_world_size == 0
    gradient_accumulation_steps //= ddp_world_size
else:
    master_process = True
    seed_offset = 0
    ddp_world_size = 1
    device = "cuda"

if master_process:
    os.makedirs("out", exist_ok=True)
torch.manual_seed(1337 + seed_offset)
model = make_model().to(device)
if ddp:
    model = DDP(model, device_ids=[ddp_local_rank])
optimizer = torch.optim.AdamW(model.parameters())
raw_model = model.module if ddp else model
t0 = time.time()
for iteration in range(1000):
    if iteration % 100 == 0 and master_process:
        losses = estimate_loss(raw_model)
        print(f"step {iteration}: {losses['val']:.4f}")
        torch.save({"model": raw_model.state_dict()}, "out/ckpt.pt")
    for micro_step in range(gradient_accumulation_steps):
        if ddp:
            model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
        x, y = get_batch("train")
        _, loss = model(x, y)
        (loss / gradient_accumulation_steps).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    t1 = time.time()
    if iteration % 10 == 0 and master_process:
        print(f"iter {iteration}: loss {loss.item():.4f}, time {(t1 - t0) * 1000:.2f}ms")
    t0 = t1
if ddp:
    destroy_process_group()
