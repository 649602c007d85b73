"""One rank of a recorded run: `record_worker.py MODE ODD`, started by record.py; rank ODD is the one that goes wrong."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FOREVER = 3600.0
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
MODE, ODD = sys.argv[1], int(sys.argv[2])
WRONG = ODD == RANK


def ones(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(count, dtype=dtype, device="cuda")


def done() -> None:
    torch.cuda.synchronize()


def steps(count: int, elements: int = 1 << 16) -> None:
    """The inner loop of a plain training job."""
    gradient = ones(elements)
    for _ in range(count):
        dist.all_reduce(gradient)
        done()


class Mesh:
    """Pairs (tensor parallel), strides (data parallel), and a chain of stages (pipeline)."""

    def __init__(self) -> None:
        pairs = [dist.new_group([r, r + 1]) for r in range(0, WORLD, 2)]
        strides = [dist.new_group(list(range(r, WORLD, 2))) for r in range(2)]
        self.tensor, self.data = pairs[RANK // 2], strides[RANK % 2]

    def step(self, *, skip_data: bool = False, skip_tensor: bool = False) -> None:
        activations, gradients = ones(1 << 14), ones(1 << 18)
        if not skip_tensor:
            dist.all_reduce(activations, group=self.tensor)
        dist.all_gather([ones(1 << 12) for _ in range(2)], ones(1 << 12), group=self.tensor)
        if not skip_data:
            dist.all_reduce(gradients, group=self.data)
        done()

    def pipeline(self, *, stuck: bool = False) -> None:
        """Activations go from each stage of two ranks to the next."""
        box = ones(1 << 14)
        if RANK >= 2:
            if stuck:
                time.sleep(FOREVER)
            dist.recv(box, RANK - 2)
        if RANK < WORLD - 2:
            dist.send(box, RANK + 2)
        done()


def healthy_mesh() -> None:
    mesh = Mesh()
    for number in range(6):
        mesh.step()
        mesh.pipeline()
        if number == 3 and RANK == 0:
            time.sleep(4)  # a checkpoint
    dist.barrier()


def healthy_ddp() -> None:
    model = DistributedDataParallel(torch.nn.Linear(512, 512).cuda())
    best = torch.optim.SGD(model.parameters(), 1e-3)
    for number in range(12):
        batch = torch.randn(64, 512, device="cuda")
        if number % 3:
            with model.no_sync():
                model(batch).sum().backward()
        else:
            model(batch).sum().backward()
            best.step()
            best.zero_grad()
    if RANK == 0:
        time.sleep(3)  # evaluates alone
    dist.barrier()


def healthy_uneven_groups() -> None:
    low, high = dist.new_group(range(WORLD // 2)), dist.new_group(range(WORLD // 2, WORLD))
    mine, count = (low, 40) if WORLD // 2 > RANK else (high, 9)
    for _ in range(count):
        dist.all_reduce(ones(4096), group=mine)
    done()
    if RANK in (1, 2):
        pair = dist.new_group([1, 2], use_local_synchronization=True)
        dist.all_reduce(ones(64), group=pair)
    dist.barrier()


def healthy_many_calls() -> None:
    after, before = (RANK + 1) % WORLD, (RANK - 1) % WORLD
    for number in range(4):
        out, box = ones(1 << 12), ones(1 << 12)
        ways = [dist.P2POp(dist.isend, out, after), dist.P2POp(dist.irecv, box, before)]
        for work in dist.batch_isend_irecv(ways):
            work.wait()
        sizes = [128 * (r + 1) for r in range(WORLD)]
        dist.all_to_all_single(
            ones(128 * (RANK + 1) * WORLD), ones(sum(sizes)), [sizes[RANK]] * WORLD, sizes
        )
        told = [{"epoch": number} if RANK == 0 else None]
        dist.broadcast_object_list(told, 0)
        dist.reduce_scatter_tensor(ones(1 << 10), ones(WORLD << 10))
    dist.barrier()


def healthy_slow() -> None:
    for _ in range(5):
        if WRONG:
            time.sleep(2.5)
        steps(1)


def skip_data() -> None:
    mesh = Mesh()
    for number in range(6):
        mesh.step(skip_data=WRONG and number == 3)


def pipeline_stuck() -> None:
    mesh = Mesh()
    for number in range(4):
        mesh.step()
        mesh.pipeline(stuck=WRONG and number == 2)


def wrong_type() -> None:
    steps(4)
    dist.all_reduce(ones(1 << 12, torch.float16 if WRONG else torch.float32))
    done()
    steps(2)


def uneven_exchange() -> None:
    steps(4)
    to_each = [256] * WORLD
    if WRONG:
        to_each[(RANK + 1) % WORLD] = 512
    dist.all_to_all_single(ones(256 * WORLD), ones(sum(to_each)), [256] * WORLD, to_each)
    done()
    steps(2)


def other_root() -> None:
    steps(4)
    dist.broadcast(ones(1 << 20), 1 if WRONG else 0)
    done()
    steps(2)


def stopped() -> None:
    steps(4)
    if WRONG:
        os.kill(os.getpid(), signal.SIGSTOP)
    steps(4)


def device_assert() -> None:
    steps(4)
    if WRONG:
        table = ones(8)
        print(table[torch.tensor([99], device="cuda")].sum().item())
    steps(4)


def out_of_memory() -> None:
    steps(4)
    if WRONG:
        held = [torch.empty(60 << 30, dtype=torch.uint8, device="cuda") for _ in range(4)]
        print(len(held))
    steps(4)


def throws() -> None:
    steps(4)
    if WRONG:
        raise KeyError("labels")
    steps(4)


def leaves_early() -> None:
    steps(4)
    if WRONG:
        print("no more batches", flush=True)
        os._exit(0)
    steps(4)


def killed() -> None:
    steps(4)
    if RANK in (ODD, WORLD - 2):
        os.kill(os.getpid(), signal.SIGKILL)
    steps(4)


def leaves_killed() -> None:
    steps(4)
    if WRONG:
        os.kill(os.getpid(), signal.SIGKILL)
    steps(4)


def logs_alone() -> None:
    """The classic: one rank reduces its metric before printing it, the others do not."""
    steps(4)
    if WRONG:
        dist.all_reduce(ones(1))
        done()
    steps(4)


def last_barrier() -> None:
    steps(4)
    if WRONG:
        dist.barrier()
    time.sleep(FOREVER)


def group_on_some() -> None:
    steps(4)
    if not WRONG:
        group = dist.new_group(range(WORLD))
        dist.all_reduce(ones(64), group=group)
        done()
    steps(4)


def evaluates_long() -> None:
    steps(4)
    if WRONG:
        score = 0.0
        until = time.monotonic() + 60
        while time.monotonic() < until:
            score += sum(range(1000))
    steps(4)


def loader_dies() -> None:
    steps(4)
    if WRONG:
        subprocess.run(["sh", "-c", "kill -11 $$"], check=True)
    steps(4)


def preempted() -> None:
    steps(4)
    time.sleep(FOREVER)


def plain() -> None:
    steps(8)


def sharded() -> None:
    """As FSDP: gather the weights, scatter the gradients; one rank has a batch less and is in the last barrier already."""
    weights = ones(1 << 16)
    for number in range(6):
        if WRONG and number == 5:
            break
        dist.all_gather_into_tensor(ones(WORLD << 16), weights)
        dist.reduce_scatter_tensor(ones(1 << 16), ones(WORLD << 16))
        done()
    dist.barrier()


def ring_missing() -> None:
    after, before = (RANK + 1) % WORLD, (RANK - 1) % WORLD
    for number in range(5):
        if WRONG and number == 3:
            time.sleep(FOREVER)
        ways = [
            dist.P2POp(dist.isend, ones(1 << 16), after),
            dist.P2POp(dist.irecv, ones(1 << 16), before),
        ]
        for work in dist.batch_isend_irecv(ways):
            work.wait()
        done()
    dist.barrier()


def other_order() -> None:
    """Two groups of all ranks, used in opposite order by one rank."""
    first, second = dist.new_group(range(WORLD)), dist.new_group(range(WORLD))
    for group in (first, second):
        dist.all_reduce(ones(1 << 12), group=group)
    done()
    for group in (second, first) if WRONG else (first, second):
        dist.all_reduce(ones(1 << 20), group=group)
        done()


def monitored() -> None:
    steps(4)
    group = dist.new_group(backend="gloo")
    if WRONG:
        time.sleep(FOREVER)
    dist.monitored_barrier(group, timeout=timedelta(seconds=8), wait_all_ranks=True)
    steps(4)


def holds_the_lock() -> None:
    """A C call that never returns and never lets go of Python's lock."""
    steps(4)
    if WRONG:
        ctypes.PyDLL(None).sleep(3600)
    steps(4)


def live() -> None:
    """Works until it is ended from outside."""
    mesh = Mesh()
    for _ in range(100_000):
        mesh.step()
        mesh.pipeline()
        time.sleep(0.05)


MODES: dict[str, Callable[[], None]] = {
    f.__name__: f
    for f in (
        healthy_mesh,
        healthy_ddp,
        healthy_uneven_groups,
        healthy_many_calls,
        healthy_slow,
        skip_data,
        pipeline_stuck,
        wrong_type,
        uneven_exchange,
        other_root,
        stopped,
        device_assert,
        out_of_memory,
        throws,
        leaves_early,
        killed,
        leaves_killed,
        logs_alone,
        last_barrier,
        group_on_some,
        evaluates_long,
        loader_dies,
        preempted,
        plain,
        sharded,
        ring_missing,
        other_order,
        monitored,
        holds_the_lock,
        live,
    )
}


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    seconds = int(os.environ.get("RECORD_TIMEOUT", "15"))
    dist.init_process_group("nccl", timeout=timedelta(seconds=seconds))
    steps(3)
    MODES[MODE]()
    done()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
