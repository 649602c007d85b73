"""A ZeRO trainer with DeepSpeed: all ranks save, rank 0 writes the log."""

import deepspeed
import torch
import torch.distributed as dist


def get_all_reduce_mean(tensor):
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
    return tensor / dist.get_world_size()


def print_rank_0(message, rank=None):
    if rank is not None and rank <= 0:
        print(message)
    elif dist.get_rank() == 0:
        print(message)


def save_zero_three_model(model, global_rank, folder, zero_stage=0):
    to_save = getattr(model, "module", model)
    if zero_stage != 3:
        if global_rank == 0:
            torch.save(to_save.state_dict(), f"{folder}/model.bin")
        return
    output = {}
    for name, parameter in to_save.named_parameters():
        with deepspeed.zero.GatheredParameters([parameter], enabled=hasattr(parameter, "ds_id")):
            value = parameter.data.cpu()
        if global_rank == 0:
            output[name] = value
    if global_rank == 0:
        torch.save(output, f"{folder}/model.bin")


def main(args):
    torch.cuda.set_device(args.local_rank)
    device = torch.device("cuda", args.local_rank)
    deepspeed.init_distributed()
    args.global_rank = dist.get_rank()
    dist.barrier()
    model, optimizer, _, scheduler = deepspeed.initialize(model=build(), args=args)
    for epoch in range(args.epochs):
        losses = torch.zeros(1, device=device)
        for step, batch in enumerate(loader(args)):
            loss = model(**batch).loss
            model.backward(loss)
            model.step()
            losses += loss.detach()
            if step % 1000 == 0:
                model.save_checkpoint(args.output_dir, tag=f"{epoch}-{step}")
        mean = get_all_reduce_mean(losses)
        print_rank_0(f"epoch {epoch}: {mean.item()}", args.global_rank)
    save_zero_three_model(model, args.global_rank, args.output_dir, zero_stage=args.zero_stage)
