"""FSDP with a full state dict: gathered by all ranks, written by rank 0."""

import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullStateDictConfig, StateDictType
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def setup():
    dist.init_process_group("nccl")


def cleanup():
    dist.destroy_process_group()


def train(model, loader, optimizer, rank):
    totals = torch.zeros(2).to(rank_device())
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch).loss
        loss.backward()
        optimizer.step()
        totals[0] += loss.item()
        totals[1] += len(batch)
    dist.all_reduce(totals, op=dist.ReduceOp.SUM)
    if rank == 0:
        print(totals[0] / totals[1])


def rank_device():
    return torch.device("cuda", int(os.environ["LOCAL_RANK"]))


def fsdp_main(args):
    local_rank = int(os.environ["LOCAL_RANK"])
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(local_rank)
    setup()
    model = FSDP(build(), device_id=torch.cuda.current_device())
    train(model, loader(args), torch.optim.AdamW(model.parameters()), rank)
    dist.barrier()
    policy = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, policy):
        state = model.state_dict()
    if rank == 0:
        torch.save(state, "model.pt")
    dist.barrier()
    cleanup()
