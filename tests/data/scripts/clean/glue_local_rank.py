"""Fine-tuning in the early Transformers style: `--local_rank`, and barriers so that one rank fills the cache."""

import os

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler


def load_and_cache_examples(args, evaluate=False):
    if args.local_rank not in [-1, 0] and not evaluate:
        torch.distributed.barrier()
    cached = os.path.join(args.data_dir, "cached")
    if os.path.exists(cached):
        features = torch.load(cached)
    else:
        features = convert(args)
        if args.local_rank in [-1, 0]:
            torch.save(features, cached)
    if args.local_rank == 0 and not evaluate:
        torch.distributed.barrier()
    return features


def train(args, dataset, model):
    sampler = RandomSampler(dataset) if args.local_rank == -1 else DistributedSampler(dataset)
    loader = DataLoader(dataset, sampler=sampler, batch_size=args.batch_size)
    if args.n_gpu > 1:
        model = torch.nn.DataParallel(model)
    if args.local_rank != -1:
        model = DistributedDataParallel(
            model, device_ids=[args.local_rank], output_device=args.local_rank, find_unused_parameters=True
        )
    for epoch in range(args.epochs):
        if args.local_rank != -1:
            sampler.set_epoch(epoch)
        for step, batch in enumerate(loader):
            loss = model(**batch)[0]
            if args.n_gpu > 1:
                loss = loss.mean()
            loss.backward()
            if args.local_rank in [-1, 0] and step % args.save_steps == 0:
                (model.module if hasattr(model, "module") else model).save_pretrained("out")


def evaluate(args, dataset):
    return DataLoader(dataset, sampler=SequentialSampler(dataset))


def main(args):
    if args.local_rank == -1 or args.no_cuda:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        args.n_gpu = torch.cuda.device_count()
    else:
        torch.cuda.set_device(args.local_rank)
        device = torch.device("cuda", args.local_rank)
        torch.distributed.init_process_group(backend="nccl")
        args.n_gpu = 1
    if args.local_rank not in [-1, 0]:
        torch.distributed.barrier()
    model = load_model().to(device)
    if args.local_rank == 0:
        torch.distributed.barrier()
    train(args, load_and_cache_examples(args), model)
    if args.local_rank in [-1, 0]:
        evaluate(args, load_and_cache_examples(args, evaluate=True))
