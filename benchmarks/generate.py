"""Writes logs like those of a training job under NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL, as large as wanted.

    python benchmarks/generate.py FOLDER --hosts 16 --ranks 8 --calls 35000

A job has hosts × ranks processes with three communicators each: all ranks, the ranks of a host, and one rank of every
host; with `--experts 16` also those of 16 ranks in a row, for expert parallelism. What is wrong with it is written beside
the folder, as FOLDER.truth.json. All ranks of a communicator make the same calls, but for the faults asked for: `--stop 7:900` (rank 7 stops before
its call 900), `--wrong 7:900` (its call 900 has one element more), `--lose 7:900` (the line of that call is missing).
"""

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STEP = 256
"""Calls in one training step; every step makes the same calls."""

CALL = (
    "{front}{head}{op}: opCount %x sendbuff {send} recvbuff {receive} count {count} datatype {datatype} op {redop} "
    "root {root} comm {comm} [nranks={nranks}] stream {stream}{suffix}\n"
)
START = "ncclCommInitRankConfig comm {comm} rank {rank} nranks {nranks} cudaDev {device} nvmlDev {device} busId {device:x}b000 commId {id} - Init {phase}"
QUIET = [
    "Bootstrap: Using eth0:192.0.2.{host}<0>",
    "cudaDriverVersion 12080",
    "NCCL version 2.26.2+cuda12.8",
    "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:192.0.2.{host}<0>",
    "Using network IB",
]
OUTPUT = [
    "step {step} loss 2.{step} lr 0.0003 tokens/s 81234",
    "UserWarning: a value was clipped",
]
SUBSYSTEMS = [
    "misc/utils.cc:{n} memory stack hunk malloc(65536)",
    "New proxy send connection {n} from local rank {n}, transport 2",
    "Connected to proxy localRank {n} -> connection 0x7f{n:010x}",
    "channel.cc:41 Cuda Alloc Size 1152 pointer 0x7f{n:010x}",
    "Mem Realloc old size 0, new size {n} pointer 0x55{n:010x}",
    "UDS converted handle 0x7f{n:010x} to fd 73 on remote peer {n}",
    "Received and initiated operation=Init res=0",
    "ProxyCall UDS comm 0x55d0 rank {n} tpRank 1(f2) reqSize 8 respSize 0 respFd 0x1 opId 0x{n:x}",
    "Channel {channel:02d}/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
    "GPU/0-60 :GPU/0-60 (0/5000.0/LOC) GPU/0-70 (2/370.8/NVL) CPU/0-0 (1/48.0/PHB)",
    "resp.opId=0x7f{n:010x} matches expected opId=0x7f{n:010x}",
    "AllReduce: {size} Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..23}}",
]


@dataclass
class Faults:
    """(rank, call) pairs."""

    stop: dict[int, int] = field(default_factory=dict)
    wrong: dict[int, int] = field(default_factory=dict)
    lose: dict[int, int] = field(default_factory=dict)


@dataclass
class Rank:
    """One process: its place, its pointers, and the lines of one step with a hole for each opCount."""

    number: int
    host: int
    device: int
    comms: dict[str, tuple[str, str, int, int]]
    lines: list[bytes]

    @property
    def head(self) -> str:
        return head(self.host, self.device)


def head(host: int, device: int) -> str:
    """The header of this process's records."""
    pid = 12_000 + host * 17 + device * 311
    return f"node-{host:04d}:{pid}:{pid} [{device}] NCCL INFO "


def plan(seed: int, experts: int = 0) -> list[tuple[str, str, int, int, int, int]]:
    """One step: (op, which communicator, count, datatype, redop, root); with experts, every eighth call is theirs."""
    choose = random.Random(seed)
    sizes = [1, 4096, 16384, 1 << 20, 3 << 20, 25 << 20]
    calls = []
    for _ in range(STEP):
        which = choose.choices(["host", "column", "all"], [60, 38, 2])[0]
        op = choose.choices(["AllReduce", "AllGather", "ReduceScatter", "Broadcast"], [6, 2, 2, 1])[
            0
        ]
        redop = choose.choice([0, 0, 4]) if op in ("AllReduce", "ReduceScatter") else 0
        calls.append((op, which, choose.choice(sizes), choose.choice([7, 9]), redop, 0))
    if experts:
        for at in range(0, STEP, 8):
            calls[at] = ("AllGather" if at % 16 else "ReduceScatter", "experts", 4096, 9, 0, 0)
    return calls


def truth(hosts: int, per_host: int, calls: int, seed: int, faults: Faults, experts: int) -> dict[str, Any]:  # fmt: skip
    """What a diagnosis has to find: each fault with its rank, its communicator, and its call's number there."""
    step = plan(seed, experts)
    found = []
    for kind in ("stop", "wrong", "lose"):
        for rank, call in sorted(getattr(faults, kind).items()):
            which = step[call % STEP][1]
            of_step = [other[1] for other in step].count(which)
            ordinal = call // STEP * of_step + [o[1] for o in step[: call % STEP]].count(which)
            found.append({"kind": kind, "rank": rank, "call": call, "communicator": which, "ordinal": ordinal})  # fmt: skip
    return {"ranks": hosts * per_host, "hosts": hosts, "calls": calls, "experts": experts, "faults": found}  # fmt: skip


def ranks(
    hosts: int, per_host: int, seed: int, front: str, suffix: str, experts: int = 0
) -> Iterator[Rank]:
    """All processes of the job."""
    step = plan(seed, experts)
    for number in range(hosts * per_host):
        host, device = divmod(number, per_host)
        choose = random.Random(seed * 7919 + number)
        seats = {
            "all": (number, hosts * per_host, 0),
            "host": (device, per_host, 1 + host),
            "column": (host, hosts, 1001 + device),
        }
        if experts:
            seats["experts"] = (number % experts, experts, 5001 + number // experts)
        comms = {
            which: (f"0x55d{choose.getrandbits(32):08x}0", f"0x{seed:x}{which_id:08x}", seat, size)
            for which, (seat, size, which_id) in seats.items()
        }
        buffers = [f"0x7f{choose.getrandbits(40):010x}" for _ in range(48)]
        lines = []
        for op, which, count, datatype, redop, root in step:
            comm, _, _, size = comms[which]
            text = CALL.format(
                front=front,
                head=head(host, device),
                op=op,
                send=choose.choice(buffers),
                receive=choose.choice(buffers),
                count=count,
                datatype=datatype,
                redop=redop,
                root=root,
                comm=comm,
                nranks=size,
                stream=comm.replace("55d", "56e"),
                suffix=suffix.format(rank=number),
            )
            lines.append(text.encode())
        yield Rank(number, host, device, comms, lines)


def opening(rank: Rank) -> bytes:
    """What the process says before its first call."""
    texts = [line.format(host=rank.host % 250 + 1) for line in QUIET]
    for comm, name, seat, size in rank.comms.values():
        facts = {"comm": comm, "id": name, "rank": seat, "nranks": size, "device": rank.device}
        texts += [START.format(phase=phase, **facts) for phase in ("START", "COMPLETE")]
    return "".join(f"{rank.head}{text}\n" for text in texts).encode()


def steps(rank: Rank, calls: int, faults: Faults) -> Iterator[bytes]:
    """The process's lines, a step at a time, with a line of the program's output every 25 calls."""
    end = min(calls, faults.stop.get(rank.number, calls))
    for first in range(0, end, STEP):
        lines = rank.lines[: end - first]
        for fault in ("wrong", "lose"):
            at = getattr(faults, fault).get(rank.number, -1) - first
            if 0 <= at < len(lines):
                lines = lines.copy()
                lines[at] = _wrong(lines[at]) if fault == "wrong" else b"%.0a"
        numbers = tuple(range(first, first + len(lines)))
        for at in range(len(lines) - len(lines) % 25, 0, -25):
            text = OUTPUT[at // 25 % 2].format(step=first // STEP).encode() + b"\n"
            lines = [*lines[:at], text, *lines[at:]]
        yield b"".join(lines) % numbers


def _wrong(line: bytes) -> bytes:
    before, _, after = line.partition(b" count ")
    count, _, rest = after.partition(b" ")
    return b"%s count %d %s" % (before, int(count) + 1, rest)


def stamped(block: bytes, number: int) -> bytes:
    """The block with another time in front of every line."""
    lines = block.split(b"\n")[:-1]
    return b"".join(
        b"2026-11-30T04:%02d:%02d.%06dZ %s\n"
        % (number // 60 % 60, number % 60, at * 997 % 1_000_000, line)
        for at, line in enumerate(lines)
    )


def mixed(blocks: list[bytes], choose: random.Random) -> bytes:
    """Several processes' lines in one stream, four at a time, in the order of chance."""
    queues = [block.split(b"\n")[:-1] for block in blocks]
    order = [which for which, lines in enumerate(queues) for _ in range(0, len(lines), 4)]
    choose.shuffle(order)
    at = [0] * len(queues)
    out: list[bytes] = []
    for which in order:
        out += queues[which][at[which] : at[which] + 4]
        at[which] += 4
    return b"\n".join(out) + b"\n"


def write_files(folder: Path, every: list[Rank], calls: int, faults: Faults, stamps: bool) -> None:
    """One file a rank, as NCCL_DEBUG_FILE makes them."""
    for rank in every:
        path = folder / f"nccl_debug_node-{rank.host:04d}_{rank.number}.log"
        with path.open("wb", 1 << 20) as file:
            file.write(opening(rank))
            for number, block in enumerate(steps(rank, calls, faults)):
                file.write(stamped(block, number) if stamps else block)


def write_stream(path: Path, every: list[Rank], calls: int, faults: Faults) -> None:
    """All ranks in one file, as a launcher's output has them."""
    choose = random.Random(1)
    with path.open("wb", 1 << 20) as file:
        for rank in every:
            file.write(opening(rank))
        for blocks in zip(*(steps(rank, calls, faults) for rank in every), strict=False):
            file.write(mixed(list(blocks), choose))


def write_subsystems(path: Path, size: int) -> None:
    """What SUBSYS=ALL adds: no call among the lines."""
    written = number = 0
    with path.open("wb", 1 << 20) as file:
        while written < size:
            lines = []
            for text in SUBSYSTEMS:
                number += 1
                message = text.format(
                    n=number * 7919 % 1_000_003, channel=number % 24, size=4096 << number % 7
                )
                lines.append(head(0, 0) + message)
            written += file.write(("\n".join(lines) + "\n").encode())


def _pairs(values: list[str]) -> dict[int, int]:
    return {int(rank): int(call) for rank, _, call in (value.partition(":") for value in values)}


def main() -> None:
    """Reads the command line and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hosts", type=int, default=16)
    parser.add_argument("--ranks", type=int, default=8, help="of each host")
    parser.add_argument("--calls", type=int, default=35_000, help="of each rank")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--experts", type=int, default=0, help="ranks that share experts, 0 for none"
    )
    parser.add_argument("--layout", choices=["files", "stream", "subsystems"], default="files")
    parser.add_argument("--stamps", action="store_true", help="another time on every line")
    parser.add_argument("--rccl", action="store_true", help="with RCCL's two fields more")
    parser.add_argument("--megabytes", type=int, default=100, help="for --layout subsystems")
    for fault in ("stop", "wrong", "lose"):
        parser.add_argument(f"--{fault}", action="append", default=[], metavar="RANK:CALL")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.layout == "subsystems":
        write_subsystems(options.folder / "all.log", options.megabytes * 1_000_000)
        return
    faults = Faults(_pairs(options.stop), _pairs(options.wrong), _pairs(options.lose))
    suffix = " task 0 globalrank {rank}" if options.rccl else ""
    if options.experts and options.hosts * options.ranks % options.experts:
        parser.error("--experts has to divide the number of ranks")
    every = list(ranks(options.hosts, options.ranks, options.seed, "", suffix, options.experts))
    known = truth(
        options.hosts, options.ranks, options.calls, options.seed, faults, options.experts
    )
    beside = options.folder.with_name(f"{options.folder.name}.truth.json")
    beside.write_text(json.dumps(known, indent=1) + "\n")
    if options.layout == "files":
        write_files(options.folder, every, options.calls, faults, options.stamps)
    else:
        write_stream(options.folder / "job.log", every, options.calls, faults)


if __name__ == "__main__":
    main()
