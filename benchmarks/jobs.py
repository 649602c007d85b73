"""Makes jobs with a known truth: tensor, pipeline, data and expert parallel groups, NCCL's dialects, launchers' prefixes, faults, noise.

Ranks run a program of calls with points where they wait for the GPU; whoever waits for a call that somebody has not
made stops there, so that a fault stops the job as it would on a cluster, and every rank's log ends where it would.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from generate import CALL

KINDS = ("skip", "stop", "op", "size", "dtype", "death", "order", "missing", "env", "ib")
"""skip: one call left out; stop: no call from here on; op, size, dtype: one call that differs; death: the log ends and
peers see the connection closed; order: two groups the other way round; missing: never at the set-up; env: a variable
that differs; ib: an InfiniBand completion error."""

HANGS = ("skip", "stop", "op", "size", "dtype", "order")
"""After these PyTorch's watchdog speaks on some of the other ranks. Without any sign of a hang, a log that ends earlier
than others is no proof: it may just have been copied earlier."""

WATCHDOG = (
    "[rank{rank}]:[E1130 04:28:11.{rank:06d}001 ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600020 "
    "milliseconds before timing out."
)

EXPECTED = {
    "skip": ("HANG01", "COLL01", "COLL02", "COLL03"),
    "stop": ("HANG01",),
    "op": ("COLL01",),
    "size": ("COLL02",),
    "dtype": ("COLL02",),
    "death": ("CRASH01", "HANG01", "NET10"),
    "order": ("COLL03",),
    "missing": ("INIT01",),
    "env": ("ENV03",),
    "ib": ("NET01",),
}
"""The codes that may head the report. A rank that skips a call is behind, or calls something else in its place; and if
it goes on with another group and waits there, its log is the same as if it had used the two groups in another order."""

_CLOSED = {
    "2.18.3": "misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer {peer}",
    "2.21.5": "misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer {peer}",
    "2.26.2": "misc/socket.cc:64 NCCL WARN socketProgress: Connection closed by remote peer {peer}",
    "2.28.9": "misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer {peer}",
    "2.30.7": "misc/socket.cc:80 (socketProgress) NCCL WARN socketProgress: Connection closed by remote peer {peer}",
}
_IB_ERROR = {
    "2.18.3": "transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer {peer} with error {status}, opcode 0, len 0, vendor err {vendor} (Send) localGid ::ffff:{here} remoteGids::ffff:{there}",
    "2.21.5": "transport/net_ib.cc:1699 NCCL WARN NET/IB : Got completion from peer {peer} with status={status} opcode=0 len=0 vendor err {vendor} (Send) localGid ::ffff:{here} remoteGids::ffff:{there} hca mlx5_0",
    "2.26.2": "transport/net_ib.cc:2173 NCCL WARN NET/IB: Got completion from peer {peer} with status={status} opcode=0 len=0 vendor err {vendor} (Send) localGid ::ffff:{here} remoteGids::ffff:{there} hca mlx5_0",
    "2.28.9": "transport/net_ib.cc:2200 NCCL WARN NET/IB: Got completion from peer {peer} with status={name}({status}) opcode=IBV_WC_SEND(0) reqSize=0 vendor_err={vendor} req_type=Send localGid ::ffff:{here} remoteGids::ffff:{there} hca mlx5_0",
    "2.30.7": "transport/net_ib/p2p.cc:800 (ncclIbTest) NCCL WARN NET/IB: Got completion from peer {peer} with status={name}({status}) opcode=IBV_WC_SEND(0) vendor_err={vendor} Send hca mlx5_0",
}
DIALECTS = tuple(_CLOSED)
_VERBS = {
    "2.18.3": "",
    "2.21.5": "ncclCommInitRank ",
    "2.26.2": "ncclCommInitRankConfig ",
    "2.28.9": "ncclCommInitRankConfig ",
    "2.30.7": "ncclCommInitRankConfig ",
}
_PREFIXES: tuple[Callable[[int, int], str], ...] = (
    lambda rank, local: f"[default{local}]:",
    lambda rank, local: f"{rank}: ",
    lambda rank, local: f"[1,{rank}]<stdout>:",
    lambda rank, local: f"[rank{rank}]:",
)
_DRIFT = ("NCCL_ALGO", "Ring", "Tree"), ("NCCL_PROTO", "Simple", "LL128"), ("NCCL_MIN_NCHANNELS", "8", "16"), ("NCCL_BUFFSIZE", "4194304", "8388608")  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """The size of the job: hosts (pipeline stages × replicas) and ranks on each."""

    hosts: int
    per_host: int
    stages: int
    dialect: str
    layout: str
    window: int
    """Calls between two points where a rank waits for the GPU."""
    experts: bool = field(default=False, repr=False)
    """Do the ranks of two replicas of a stage share experts, and a communicator for them?"""

    @property
    def ranks(self) -> int:
        return self.hosts * self.per_host


@dataclass(frozen=True)
class Call:
    op: str
    group: str
    count: int
    datatype: int = 7
    redop: int = 0
    peer: int | None = None


@dataclass(frozen=True)
class Truth:
    """What is wrong with the job: `kind` None is health; `ranks` are those at fault, `among` the group that it happens in."""

    kind: str | None
    ranks: tuple[int, ...] = ()
    among: tuple[int, ...] = ()


@dataclass
class Job:
    """Every rank's program and groups, and what was done to it."""

    shape: Shape
    choose: random.Random
    groups: dict[str, tuple[int, ...]]
    programs: list[list[Call]]
    truth: Truth = Truth(None)
    broken: set[tuple[str, int]] = field(default_factory=set)
    """(group, ordinal) of calls that never end, though all have made them."""


def make(shape: Shape, seed: int, calls: int) -> Job:
    """A healthy job: every step the same calls, as training makes them."""
    choose = random.Random(seed)
    groups = {"world": tuple(range(shape.ranks))}
    replicas = shape.hosts // shape.stages
    for host in range(shape.hosts):
        groups[f"tp{host}"] = tuple(host * shape.per_host + d for d in range(shape.per_host))
    for device in range(shape.per_host):
        for stage in range(shape.stages):
            hosts = [stage * replicas + r for r in range(replicas)]
            groups[f"dp{stage}.{device}"] = tuple(h * shape.per_host + device for h in hosts)
        for replica in range(replicas):
            hosts = [s * replicas + replica for s in range(shape.stages)]
            groups[f"pp{replica}.{device}"] = tuple(h * shape.per_host + device for h in hosts)
    if shape.experts:
        for host in range(0, shape.hosts - 1, 2):
            first = host * shape.per_host
            if replicas % 2 == 0:
                groups[f"ep{host}"] = tuple(range(first, first + 2 * shape.per_host))
    groups = {name: members for name, members in groups.items() if len(members) > 1}
    step = _step(choose)
    if shape.experts:
        step[len(step) // 2 : len(step) // 2] = [
            ("AllGather", "ep", 4096, 9),
            ("ReduceScatter", "ep", 4096, 9),
        ]
    programs = []
    for rank in range(shape.ranks):
        of = {name[:2]: name for name, members in groups.items() if rank in members}
        programs.append([c for _ in range(calls // len(step) + 1) for c in _of_rank(step, of, rank, groups)])  # fmt: skip
    return Job(shape, choose, groups, programs)


def _step(choose: random.Random) -> list[tuple[str, str, int, int]]:
    sizes = [1, 4096, 16384, 1 << 20, 3 << 20, 25 << 20]
    step = []
    for _ in range(choose.choice([9, 20, 33])):
        kind = choose.choices(["tp", "dp", "pp", "wo"], [10, 6, 3, 3])[0]
        op = choose.choices(["AllReduce", "AllGather", "ReduceScatter", "Broadcast"], [6, 2, 2, 1])[0]  # fmt: skip
        step.append((op, kind, choose.choice(sizes), choose.choice([7, 9])))
    return [*step, ("AllReduce", "wo", 1, 7)]


def _of_rank(
    step: Sequence[tuple[str, str, int, int]],
    of: dict[str, str],
    rank: int,
    groups: dict[str, tuple[int, ...]],
) -> list[Call]:
    calls = []
    for op, kind, count, datatype in step:
        if kind not in of:
            continue
        members = groups[of[kind]]
        if kind != "pp":
            calls.append(Call(op, of[kind], count, datatype))
            continue
        at = members.index(rank)
        if at > 0:
            calls.append(Call("Recv", of[kind], count, datatype, peer=at - 1))
        if at + 1 < len(members):
            calls.append(Call("Send", of[kind], count, datatype, peer=at + 1))
    return calls


def hurt(job: Job, kind: str) -> Job:
    """The job with one fault of this kind, at a rank and a call of chance."""
    choose, shape = job.choose, job.shape
    rank = choose.randrange(shape.ranks)
    program = job.programs[rank]
    at = choose.randrange(len(program) // 4, len(program) * 3 // 4)
    while program[at].peer is not None:
        at += 1
    call = program[at]
    among = job.groups[call.group]
    if kind == "skip":
        del program[at]
    elif kind in ("stop", "death"):
        del program[at:]
    elif kind in ("op", "size", "dtype"):
        other = {"AllReduce": "AllGather"}.get(call.op, "AllReduce")
        changed = {"op": Call(other, call.group, call.count, call.datatype), "size": Call(call.op, call.group, call.count + 1, call.datatype), "dtype": Call(call.op, call.group, call.count, 8)}  # fmt: skip
        program[at] = changed[kind]
        job.broken.add((call.group, sum(c.group == call.group and c.peer is None for c in program[:at])))  # fmt: skip
    elif kind == "order":
        at, among = _swap(job, rank, at)
    elif kind == "env":
        among = (rank,)
        if shape.hosts > 1 and choose.random() < 0.5:
            first = rank - rank % shape.per_host
            among = tuple(range(first, first + shape.per_host))
        return _with(job, Truth(kind, among, among))
    elif kind == "ib":
        job.broken.add((call.group, sum(c.group == call.group and c.peer is None for c in program[:at])))  # fmt: skip
    return _with(job, Truth(kind, (rank,), among))


def _with(job: Job, truth: Truth) -> Job:
    job.truth = truth
    return job


def _swap(job: Job, rank: int, start: int) -> tuple[int, tuple[int, ...]]:
    """Turns round two neighbouring collectives of two groups that another rank shares."""
    program = job.programs[rank]
    places = [*range(start, len(program) - 1), *range(start)]
    for at in places:
        first, second = program[at : at + 2]
        shared = set(job.groups[first.group]) & set(job.groups[second.group])
        if first.group != second.group and len(shared) > 1 and first.peer is second.peer is None:
            program[at : at + 2] = [second, first]
            return at, tuple(sorted(shared))
    raise ValueError("no two groups to turn round")


def issued(job: Job, rounds: int | None = None) -> list[int]:
    """How many calls of its program each rank makes until it waits for ever, or ends, or is stopped after `rounds`."""
    made: dict[tuple[str, str, int], int] = {}
    ends = [0] * job.shape.ranks
    window = 1 if job.truth.kind == "order" else job.shape.window
    counters: list[dict[str, int]] = [{} for _ in ends]
    waiting: list[list[tuple[str, str, int, int]]] = [[] for _ in ends]
    moved, done = True, 0
    while moved and done != rounds:
        moved, done = False, done + 1
        for rank, program in enumerate(job.programs):
            if any(not _ended(job, made, key) for key in waiting[rank]):
                continue
            waiting[rank] = []
            if ends[rank] >= len(program):
                continue
            for call in program[ends[rank] : ends[rank] + window]:
                waiting[rank].append(_key(job, rank, call, counters[rank]))
                made[waiting[rank][-1][:3]] = made.get(waiting[rank][-1][:3], 0) + 1
            ends[rank] = min(len(program), ends[rank] + window)
            moved = True
    return ends


def _key(job: Job, rank: int, call: Call, counts: dict[str, int]) -> tuple[str, str, int, int]:
    name, size = "", len(job.groups[call.group])
    if call.peer is not None:
        ends = sorted((job.groups[call.group].index(rank), call.peer))
        name, size = f"{ends[0]}-{ends[1]}", 2
    which = call.group + name
    counts[which] = counts.get(which, -1) + 1
    return call.group, name, counts[which], size


def _ended(job: Job, made: dict[tuple[str, str, int], int], key: tuple[str, str, int, int]) -> bool:
    group, name, ordinal, size = key
    return (name != "" or (group, ordinal) not in job.broken) and made.get(key[:3], 0) >= size


@dataclass
class Noise:
    """What a log suffers on its way. `lost` is the share of lines that is missing; `copied` while the job ran, each rank's
    log a little earlier or later."""

    lost: float = 0.0
    skew: bool = False
    shuffled: bool = False
    prefix: bool = False
    attempts: int = 1
    destroyed: bool = False
    copied: bool = False


def write(job: Job, folder: Path, noise: Noise) -> None:
    """Writes the logs of the job."""
    texts: list[list[str]] = [[] for _ in range(job.shape.ranks)]
    for attempt in range(noise.attempts):
        last = attempt + 1 == noise.attempts
        ends = issued(job, None if last else job.choose.randrange(1, 20))
        for rank, lines in enumerate(_attempt(job, ends, attempt, last and noise.destroyed)):
            texts[rank] += lines
    moment = job.choose.uniform(0.3, 0.95) if noise.copied else 2.0
    for rank, lines in enumerate(texts):
        lines = lines[: int(len(lines) * (moment + job.choose.uniform(-0.05, 0.05)))]
        kept = [line for line in lines if job.choose.random() >= noise.lost]
        texts[rank] = _dressed(job, rank, kept, noise)
    _spread(job, texts, folder, noise)


def _dressed(job: Job, rank: int, lines: list[str], noise: Noise) -> list[str]:
    host, local = divmod(rank, job.shape.per_host)
    if noise.skew:
        off = (host * 37) % 61
        return [f"2026-11-30T04:{(off + at // 50) // 60 % 60:02d}:{(off + at // 50) % 60:02d}.{at * 997 % 1_000_000:06d}Z {line}" for at, line in enumerate(lines)]  # fmt: skip
    if noise.prefix:
        front = _PREFIXES[job.shape.ranks % len(_PREFIXES)]
        return [front(rank, local) + line for line in lines]
    return lines


def _spread(job: Job, texts: list[list[str]], folder: Path, noise: Noise) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    missing = job.truth.ranks if job.truth.kind == "missing" else ()
    if job.shape.layout == "files":
        names = list(range(len(texts)))
        if noise.shuffled:
            job.choose.shuffle(names)
        for rank, lines in enumerate(texts):
            if rank not in missing or lines:
                (folder / f"nccl.{names[rank]}.log").write_text("".join(f"{t}\n" for t in lines))
        return
    order = [rank for rank, lines in enumerate(texts) for _ in range(0, len(lines), 3)]
    job.choose.shuffle(order)
    at = [0] * len(texts)
    with (folder / "job.out").open("w") as file:
        for rank in order:
            file.writelines(f"{t}\n" for t in texts[rank][at[rank] : at[rank] + 3])
            at[rank] += 3


def _attempt(job: Job, ends: list[int], attempt: int, destroyed: bool) -> list[list[str]]:
    return [_rank_lines(job, rank, end, attempt, destroyed) for rank, end in enumerate(ends)]


def _rank_lines(job: Job, rank: int, end: int, attempt: int, destroyed: bool) -> list[str]:
    shape, truth = job.shape, job.truth
    host, device = divmod(rank, shape.per_host)
    pid = 3000 + rank * 7 + attempt * 50_000
    bare = f"node-{host:03d}:{pid}:{pid} [{device}] "
    head = bare + "NCCL INFO "
    lines = _opening(job, rank, head)
    if truth.kind == "missing":
        if rank in truth.ranks:
            return lines if rank % 2 else []
        return [*lines, head + _init(job, "world", rank, attempt, "START")]
    comms = [g for g, members in job.groups.items() if rank in members]
    for group in comms:
        lines += [head + _init(job, group, rank, attempt, phase) for phase in ("START", "COMPLETE")]
    counts: dict[str, int] = {}
    for call in job.programs[rank][:end]:
        count = counts.get(call.group, 0)
        lines.append(_call(job, rank, head, call, attempt, count))
        counts[call.group] = count + (call.peer is None)
    lines += [*_trouble(job, rank, bare), *_watchdog(job, rank)]
    if destroyed:
        lines += [
            f"{head}comm {_comm(job, g, rank, attempt)} rank {job.groups[g].index(rank)} nranks {len(job.groups[g])} cudaDev {device} busId {device + 1:x}b000 - Destroy COMPLETE"
            for g in comms
        ]
    return lines


def _opening(job: Job, rank: int, head: str) -> list[str]:
    version, host = job.shape.dialect, rank // job.shape.per_host
    bootstrap = "Bootstrap :" if version < "2.26" else "Bootstrap:"
    lines = [f"{bootstrap} Using eth0:{_address(host)}<0>", "cudaDriverVersion 12080"]
    if version >= "2.26" or rank == 0:
        lines.append(f"NCCL version {version}+cuda12.8")
    devices = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:"
    lines += [f"{devices}{_address(host)}<0>", "Using network IB"]
    if job.truth.kind == "env":
        variable, usual, odd = _DRIFT[job.shape.ranks * 7 % len(_DRIFT)]
        value = odd if rank in job.truth.ranks else usual
        lines.append(f"{variable} set by environment to {value}")
    return [head + line for line in lines]


def _address(host: int) -> str:
    return f"192.0.2.{host + 1}"


def _comm(job: Job, group: str, rank: int, attempt: int) -> str:
    number = random.Random(f"{group} {rank} {attempt} {job.shape}").getrandbits(32)
    return f"0x55d{number:08x}0"


def _init(job: Job, group: str, rank: int, attempt: int, phase: str) -> str:
    members, device = job.groups[group], rank % job.shape.per_host
    identity = random.Random(f"{group} {attempt} {job.shape}").getrandbits(63)
    front = f"[Rank {members.index(rank)}] " if job.shape.dialect >= "2.30" and phase == "START" else ""  # fmt: skip
    return (
        f"{front}{_VERBS[job.shape.dialect]}comm {_comm(job, group, rank, attempt)} rank {members.index(rank)} nranks {len(members)} "
        f"cudaDev {device} nvmlDev {device} busId {device + 1:x}b000 commId 0x{identity:x} - Init {phase}"
    )


def _call(job: Job, rank: int, head: str, call: Call, attempt: int, count: int) -> str:
    line = CALL.format(
        front="",
        head=head,
        op=call.op,
        send=f"0x7f{rank:04x}{call.count:08x}",
        receive=f"0x7e{rank:04x}{call.count:08x}",
        count=call.count,
        datatype=call.datatype,
        redop=call.redop,
        root=call.peer or 0,
        comm=_comm(job, call.group, rank, attempt),
        nranks=len(job.groups[call.group]),
        stream="0x56e0",
        suffix="",
    )
    return (line % count).rstrip("\n")


def _watchdog(job: Job, rank: int) -> list[str]:
    """What PyTorch prints on a rank that has waited too long; numbers of its own, that name no communicator."""
    if job.truth.kind not in HANGS or rank in job.truth.ranks or rank % 3 == 2:
        return []
    return [WATCHDOG.format(rank=rank)]


def _trouble(job: Job, rank: int, bare: str) -> list[str]:
    """What the ranks say at the end of a job that broke."""
    truth, version = job.truth, job.shape.dialect
    stamp = "[2026-11-30 04:28:11] " if version >= "2.27" else ""
    info = bare + "NCCL INFO "
    if truth.kind == "death" and rank in truth.among and rank not in truth.ranks:
        host = truth.ranks[0] // job.shape.per_host
        first = next(r for r in truth.among if r not in truth.ranks)
        if rank != first and job.choose.random() < 0.3:
            return []
        peer = f"{_address(host)}<{40000 + truth.ranks[0]}>"
        warned = f"{stamp}{bare}{_CLOSED[version].format(peer=peer)}"
        return [warned, f"{info}misc/socket.cc:749 -> 6", f"{info}proxy.cc:858 -> 6 [Proxy Thread]"]
    if truth.kind == "ib" and rank in truth.among:
        there = next(r for r in truth.among if r != truth.ranks[0]) // job.shape.per_host
        first = rank in truth.ranks
        if not first and job.choose.random() < 0.6:
            return []
        facts = {"status": 12, "name": "IBV_WC_RETRY_EXC_ERR", "vendor": 129} if first else {"status": 5, "name": "IBV_WC_WR_FLUSH_ERR", "vendor": 249}  # fmt: skip
        here = rank // job.shape.per_host
        there = there if first else truth.ranks[0] // job.shape.per_host
        peer = f"{_address(there)}<40822>"
        text = _IB_ERROR[version].format(
            peer=peer, here=_address(here), there=_address(there), **facts
        )
        return [f"{stamp}{bare}{text}", f"{info}transport/net.cc:1298 -> 6", f"{info}proxy.cc:694 -> 6 [Proxy Thread]"]  # fmt: skip
    return []
