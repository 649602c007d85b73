"""An asynchronous all_reduce, waited for: nothing is wrong here, whatever the article fears."""

import torch.distributed as dist


def reduce_and_work(tensor):
    handle = dist.all_reduce(tensor, op=dist.ReduceOp.SUM, async_op=True)
    other_work()
    handle.wait()
