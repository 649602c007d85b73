"""Model-parallel groups in the Megatron manner: every rank makes every group and keeps its own."""

import datetime

import torch
import torch.distributed as dist

_TENSOR = _DATA = _PIPELINE = _EMBEDDING = None


def initialize_model_parallel(tensor_size, pipeline_size, timeout_minutes):
    global _TENSOR, _DATA, _PIPELINE, _EMBEDDING
    world_size = dist.get_world_size()
    rank = dist.get_rank()
    data_size = world_size // (tensor_size * pipeline_size)
    timeout = datetime.timedelta(minutes=timeout_minutes)
    pipelines = world_size // pipeline_size
    for i in range(pipeline_size):
        for j in range(tensor_size):
            ranks = range(i * pipelines + j, (i + 1) * pipelines, tensor_size)
            group = dist.new_group(ranks, timeout=timeout)
            if rank in ranks:
                _DATA = group
    for i in range(world_size // tensor_size):
        ranks = list(range(i * tensor_size, (i + 1) * tensor_size))
        group = dist.new_group(ranks, timeout=timeout)
        if rank in ranks:
            _TENSOR = group
    for i in range(pipelines):
        ranks = list(range(i, world_size, pipelines))
        group = dist.new_group(ranks)
        if rank in ranks:
            _PIPELINE = group
        ends = [ranks[0], ranks[-1]] if len(ranks) > 1 else ranks
        group = dist.new_group(ends)
        if rank in ends:
            _EMBEDDING = group
    return data_size


def get_tensor_model_parallel_rank():
    return dist.get_rank(group=_TENSOR)


def is_last_stage(pipeline_rank, pipeline_size):
    return pipeline_rank == pipeline_size - 1


def broadcast_data(keys, data, datatype):
    if get_tensor_model_parallel_rank() == 0:
        flat = torch.cat([data[key].contiguous().view(-1) for key in keys], dim=0).cuda()
    else:
        flat = torch.empty(sum(sizes(keys)), device=torch.cuda.current_device(), dtype=datatype)
    dist.broadcast(flat, 0, group=_TENSOR)
    return flat


def allreduce_embedding_grads(module, pipeline_rank, pipeline_size):
    if pipeline_rank == 0 or is_last_stage(pipeline_rank, pipeline_size):
        grad = module.word_embeddings.weight.main_grad
        dist.all_reduce(grad, group=_EMBEDDING)


def print_rank_last(message):
    if dist.is_initialized():
        if dist.get_rank() == dist.get_world_size() - 1:
            print(message, flush=True)
    else:
        print(message, flush=True)


def save_checkpoint(iteration, model):
    if dist.get_rank(group=_DATA) == 0:
        torch.save(model.state_dict(), f"iter_{iteration}/{get_tensor_model_parallel_rank()}.pt")
    if dist.is_initialized():
        dist.barrier()
    if not dist.is_initialized() or dist.get_rank() == 0:
        write_tracker(iteration)
    if dist.is_initialized():
        dist.barrier()


def reduce_buckets(buckets):
    handles = []
    for bucket in buckets:
        bucket.data /= dist.get_world_size(group=_DATA)
        handles.append(dist.all_reduce(bucket.data, group=_DATA, async_op=True))
    for handle in handles:
        handle.wait()
