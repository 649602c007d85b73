"""A CLIP-style loss: features gathered from all ranks, with or without gradient."""

import torch
import torch.distributed as dist
import torch.distributed.nn
import torch.nn.functional as F


def gather_features(image, text, local_loss, gather_with_grad, rank, world_size):
    if gather_with_grad:
        all_image = torch.cat(torch.distributed.nn.all_gather(image), dim=0)
        all_text = torch.cat(torch.distributed.nn.all_gather(text), dim=0)
    else:
        gathered_image = [torch.zeros_like(image) for _ in range(world_size)]
        gathered_text = [torch.zeros_like(text) for _ in range(world_size)]
        dist.all_gather(gathered_image, image)
        dist.all_gather(gathered_text, text)
        if not local_loss:
            gathered_image[rank] = image
            gathered_text[rank] = text
        all_image = torch.cat(gathered_image, dim=0)
        all_text = torch.cat(gathered_text, dim=0)
    return all_image, all_text


def broadcast_object(args, obj, src=0):
    if args.rank == src:
        objects = [obj]
    else:
        objects = [None]
    dist.broadcast_object_list(objects, src=src)
    return objects[0]


def loss(image, text, scale, rank, world_size):
    labels = torch.arange(image.shape[0], device=image.device)
    if world_size > 1:
        all_image, all_text = gather_features(image, text, False, False, rank, world_size)
        logits = scale * all_image @ all_text.T
        labels = torch.arange(logits.shape[0], device=image.device)
    else:
        logits = scale * image @ text.T
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
