"""A small Gloo job with a stand-in for a broken layer: it dies, or hangs, unless the variable of one lever is set."""

import os
import sys
import time

import torch
import torch.distributed as dist

mode, variable = sys.argv[1:3]
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(16))
if os.environ.get(variable) != "1" and dist.get_rank() == 1:
    if mode == "raise":
        raise ValueError("bad batch: label out of range")
    if mode == "hang":
        dist.broadcast(torch.ones(16), 1)
        time.sleep(1000)
    os._exit(1)
dist.all_reduce(torch.ones(16))
dist.destroy_process_group()
