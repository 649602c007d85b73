"""An FSDP2 and tensor-parallel trainer on a device mesh, with distributed checkpoints."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def dist_mean(x, mesh):
    total = x.detach().clone()
    dist.all_reduce(total, group=mesh.get_group())
    return (total / mesh.size()).item()


def set_pg_timeouts(timeout, mesh):
    dist.barrier(device_ids=[torch.cuda.current_device()])
    torch.cuda.synchronize()
    groups = [mesh.get_group(name) for name in mesh.mesh_dim_names]
    for group in [*groups, None]:
        dist.distributed_c10d._set_pg_timeout(timeout, group)


@record
def main(config):
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device(f"cuda:{local_rank}")
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", timeout=timedelta(seconds=config.init_timeout_seconds))
    world_size = int(os.environ["WORLD_SIZE"])
    mesh = init_device_mesh(
        "cuda", (world_size // config.tp, config.tp), mesh_dim_names=("dp", "tp")
    )
    with torch.device("meta"):
        model = build(config)
    if config.tp > 1:
        plan = {"wq": ColwiseParallel(), "wo": RowwiseParallel()}
        parallelize_module(model, mesh["tp"], plan)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    for block in model.layers:
        fully_shard(block, mesh=mesh["dp"], mp_policy=policy)
    fully_shard(model, mesh=mesh["dp"], mp_policy=policy)
    model.to_empty(device="cuda")
    if config.resume:
        state = get_model_state_dict(model)
        dcp.load(state, checkpoint_id=config.resume)
        set_model_state_dict(model, state)
    for step in range(config.steps):
        model.set_requires_gradient_sync(step % config.accumulate == config.accumulate - 1)
        loss = model(batch(mesh["dp"])).sum()
        loss.backward()
        if step % config.log_every == 0:
            mean = dist_mean(loss, mesh["dp"])
            if dist.get_rank() == 0:
                print(step, mean)
        if step == 1:
            set_pg_timeouts(timedelta(seconds=config.train_timeout_seconds), mesh)
        if step % config.save_every == 0:
            dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=f"step-{step}")
    if dist.get_rank() == 0:
        print("sleeping while the other ranks complete")
    dist.destroy_process_group()
