"""One rank of a small job in which, by MODE, the last rank goes wrong; NCCL where there are GPUs, else Gloo.

    nccldoctor run --nproc 2 benchmarks/faulty_worker.py sleep

The moment of the fault is written into $FAULT_TIME_FILE, so that the time to the verdict can be measured.
"""

import argparse
import os
import signal
import statistics
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

FOREVER = 3600.0


def fault() -> None:
    """Notes that the fault happens now; the first one counts, where the job is run again."""
    if "FAULT_TIME_FILE" in os.environ and not Path(os.environ["FAULT_TIME_FILE"]).exists():
        Path(os.environ["FAULT_TIME_FILE"]).write_text(str(time.time()))


def finish_device(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def steps(device: torch.device, count: int, elements: int = 1 << 16) -> None:
    x = torch.ones(elements, device=device)
    for _ in range(count):
        dist.all_reduce(x)
        finish_device(device)


def sleep(device: torch.device, odd: bool) -> None:
    if odd:
        fault()
        time.sleep(FOREVER)
    steps(device, 1)


def stop(device: torch.device, odd: bool) -> None:
    if odd:
        fault()
        os.kill(os.getpid(), signal.SIGSTOP)
    steps(device, 1)


def wrong_op(device: torch.device, odd: bool) -> None:
    x = torch.ones(4096, device=device)
    if odd:
        fault()
        dist.broadcast(x, 0)
    else:
        dist.all_reduce(x)
    finish_device(device)
    steps(device, 3)


def wrong_size(device: torch.device, odd: bool) -> None:
    if odd:
        fault()
    dist.all_reduce(torch.ones(8192 if odd else 4096, device=device))
    finish_device(device)
    steps(device, 3)


def group_order(device: torch.device, odd: bool) -> None:
    everyone = list(range(dist.get_world_size()))
    first, second = dist.new_group(everyone), dist.new_group(everyone)
    x = torch.ones(1 << 22, device=device)
    for group in (first, second):
        dist.all_reduce(x, group=group)
    finish_device(device)
    if odd:
        fault()
    for group in (second, first) if odd else (first, second):
        dist.all_reduce(x, group=group)
        finish_device(device)


def recv_without_send(device: torch.device, odd: bool) -> None:
    x = torch.ones(4096, device=device)
    if dist.get_rank() == 0:
        fault()
        dist.recv(x, 1)
        finish_device(device)
    steps(device, 1)


def _captured(device: torch.device) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    """An all_reduce in a CUDA graph; the watchdog does not see its replays."""
    x = torch.ones(1 << 20, device=device)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            dist.all_reduce(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
    graph.replay()
    torch.cuda.synchronize()
    return graph, x


def graph_replays(device: torch.device, odd: bool) -> None:
    graph, _ = _captured(device)
    if odd:
        fault()
    for _ in range(2 if odd else 3):
        graph.replay()
    torch.cuda.synchronize()
    if odd:
        time.sleep(FOREVER)


def graph_destroy(device: torch.device, odd: bool) -> None:
    """All ranks destroy the group while a captured graph still holds its communicator."""
    kept = _captured(device)
    fault()
    dist.destroy_process_group()
    del kept


def kill(device: torch.device, odd: bool) -> None:
    if odd:
        fault()
        os.kill(os.getpid(), signal.SIGKILL)
    steps(device, 3)


def segv(device: torch.device, odd: bool) -> None:
    if odd:
        fault()
        os.kill(os.getpid(), signal.SIGSEGV)
    steps(device, 3)


def leave(device: torch.device, odd: bool) -> None:
    if odd:
        fault()
        os._exit(7)
    steps(device, 3)


def throw(device: torch.device, odd: bool) -> None:
    if odd:
        fault()
        raise ValueError("bad batch: label out of range")
    steps(device, 3)


def checkpoint(device: torch.device, odd: bool) -> None:
    """No fault: one rank writes for a while, and the others wait for it."""
    if odd:
        until = time.monotonic() + float(os.environ.get("CHECKPOINT_SECONDS", "60"))
        state = {"weights": torch.ones(1 << 20)}
        while time.monotonic() < until:
            torch.save(state, os.environ.get("CHECKPOINT_FILE", os.devnull))
    steps(device, 1)


def needs_lever(device: torch.device, odd: bool) -> None:
    """A stand-in for a broken layer: one rank dies unless the variable of one lever is set."""
    variable = os.environ.get("NEEDS_LEVER", "NCCL_P2P_DISABLE")
    if odd and os.environ.get(variable) != "1":
        fault()
        os._exit(1)
    steps(device, 3)


def healthy(device: torch.device, odd: bool) -> None:
    steps(device, 20)


def timed(device: torch.device, count: int, step_ms: float) -> None:
    """A healthy loop: about `step_ms` of work and one all_reduce a step; rank 0 prints the median in milliseconds."""
    x = torch.ones(1 << 20, device=device)
    size = 4096 if device.type == "cuda" else 256
    a = torch.randn(size, size, device=device)
    repeat = 1

    def work() -> float:
        began = time.perf_counter()
        for _ in range(repeat):
            torch.mm(a, a)
        finish_device(device)
        return (time.perf_counter() - began) * 1e3

    for _ in range(5):
        work()
    once = statistics.median(work() for _ in range(9))
    share = torch.tensor([max(1.0, round(step_ms / once))], device=device)
    dist.broadcast(share, 0)
    repeat = int(share.item())
    times = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        dist.all_reduce(x)
        finish_device(device)
        times.append((time.perf_counter() - began) * 1e3)
    if dist.get_rank() == 0:
        rest = times[count // 10 :]
        text = f"{statistics.median(rest):.4f} {statistics.fmean(rest):.4f}"
        if "STEP_TIME_FILE" in os.environ:
            Path(os.environ["STEP_TIME_FILE"]).write_text(text)
        print("median and mean step in ms:", text, flush=True)


MODES = {
    "healthy": healthy,
    "sleep": sleep,
    "stop": stop,
    "wrong_op": wrong_op,
    "wrong_size": wrong_size,
    "group_order": group_order,
    "recv_without_send": recv_without_send,
    "graph_replays": graph_replays,
    "graph_destroy": graph_destroy,
    "kill": kill,
    "segv": segv,
    "exit": leave,
    "raise": throw,
    "checkpoint": checkpoint,
    "needs_lever": needs_lever,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=[*MODES, "late_init", "timed"])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--step-ms", type=float, default=20.0)
    chosen = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    odd = rank == world - 1
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
        backend = "nccl"
        if torch.cuda.device_count() < world:
            # NCCL refuses two ranks of one host on one GPU: each rank is a host of its own, over loopback.
            os.environ.update(
                NCCL_HOSTID=f"host-{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1"
            )
    else:
        device, backend = torch.device("cpu"), "gloo"
    if chosen.mode == "late_init" and odd:
        fault()
        time.sleep(FOREVER)
    dist.init_process_group(backend, timeout=timedelta(minutes=30))
    steps(device, 3)
    if chosen.mode == "timed":
        timed(device, chosen.steps, chosen.step_ms)
    else:
        MODES[chosen.mode](device, odd)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
