"""Where ranks stand in their programs, and how sentences name ranks and communicators."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from nccldoctor.diagnose.words import ranges, some
from nccldoctor.model.events.torch import Stack, StackFrame
from nccldoctor.model.job import Communicator, Job, Process

_LIBRARY = re.compile(
    r"site-packages|dist-packages|/lib/python\d|(?:^|/)torch/|^<frozen|^<string>|(?:^|/)multiprocessing/"
    r"|^(?:threading|selectors|socket|queue|subprocess|contextlib|runpy|concurrent)\b"
)
_TORCH = re.compile(r"(?:^|/)torch/")
_WAITING = frozenset({"wait", "synchronize", "wait_for", "_wait_for_tstate_lock"})


def is_user(frame: StackFrame) -> bool:
    """Is this a line of the user's program, not of Python, PyTorch or another package?"""
    return not _LIBRARY.search(frame.file)


def user_frame(frames: Sequence[StackFrame]) -> StackFrame | None:
    """The innermost frame of the user's program."""
    return next((f for f in frames if is_user(f)), None)


def waits(frames: Sequence[StackFrame]) -> bool:
    """Does the user's innermost line wait inside PyTorch: a collective, a synchronisation, destroy_process_group?"""
    for frame in frames:
        if is_user(frame):
            return False
        if _TORCH.search(frame.file) or frame.function in _WAITING:
            return True
    return False


def in_collective(frames: Sequence[StackFrame]) -> bool:
    """Does the user's innermost line stand in a call of torch.distributed?"""
    for frame in frames:
        if is_user(frame):
            return False
        if "torch/distributed/" in frame.file:
            return True
    return False


def spot(frame: StackFrame) -> str:
    """`train.py:92 in step`."""
    name = frame.file.rsplit("/", 1)[-1]
    within = f" in {frame.function}" if frame.function and frame.function != "<module>" else ""
    return f"{name}:{frame.line}{within}"


def stacks(job: Job) -> dict[int, Stack]:
    """Process → the last stack of its main thread; the stack of a failed collective only where there is no other."""
    found: dict[int, Stack] = {}
    for stack in job.events(Stack):
        process = job.process_of(stack)
        if process is None or user_frame(stack.frames) is None:
            continue
        known = found.get(process.id)
        if known is None or _worth(stack) >= _worth(known):
            found[process.id] = stack
    return found


def _worth(stack: Stack) -> int:
    if stack.origin in ("recorder", "watchdog"):
        return 0
    return 2 if stack.thread == "MainThread" else 1


def positions(
    job: Job, ranks: Iterable[int], frames: Mapping[int, Sequence[StackFrame]]
) -> dict[int, StackFrame]:
    """Global rank → the user's line it stands in: by a stack, else where its last call was made, as `frames` tell."""
    found: dict[int, StackFrame] = {}
    of_process = stacks(job)
    for rank in sorted(set(ranks)):
        process = job.process_of_rank(rank)
        stack = of_process.get(process.id) if process is not None else None
        frame = user_frame(stack.frames if stack is not None else frames.get(rank, ()))
        if frame is not None:
            found[rank] = frame
    return found


def grouped(positions: Mapping[int, StackFrame]) -> str:
    """`ranks 0-6: train.py:92 in step; rank 7: data.py:41 in load`; "" where nothing is known."""
    ranks_at: dict[str, list[int]] = defaultdict(list)
    for rank, frame in positions.items():
        ranks_at[spot(frame)].append(rank)
    ordered = sorted(ranks_at.items(), key=lambda item: (len(item[1]), item[1]))
    parts = [f"rank{'s' * (len(r) > 1)} {ranges(r)}: {where}" for where, r in ordered]
    return "; ".join(parts[:6]) + (f"; and {len(parts) - 6} more places" if len(parts) > 6 else "")


def name(job: Job, comm: Communicator, ranks: Sequence[int]) -> str:
    """`Rank 7 on gpu-node-04 (pid 2526, GPU 1)`, `Ranks 3, 5 on 2 hosts`: ranks inside `comm`, named globally if known."""
    worldwide = global_ranks(comm, ranks)
    processes = [p for r in ranks if (p := process_of(job, comm, r)) is not None]
    hosts = sorted({p.host for p in processes if p.host})
    where = f" on {some(hosts)}" if hosts else ""
    if len(ranks) == 1 and processes:
        where += _details(processes[0])
    plural = "s" * (len(ranks) > 1)
    if worldwide is not None:
        return f"Rank{plural} {ranges(worldwide)}{where}"
    return f"Rank{plural} {ranges(ranks)} of {comm.name}{where}"


def _details(process: Process) -> str:
    parts = []
    if process.pid is not None:
        parts.append(f"pid {process.pid}")
    if process.device is not None:
        parts.append(f"GPU {process.device}")
    return f" ({', '.join(parts)})" if parts else ""


def global_ranks(comm: Communicator, ranks: Iterable[int]) -> tuple[int, ...] | None:
    """The global ranks of these ranks inside `comm`; None when one of them is not known."""
    found = [comm.members[rank].global_rank for rank in ranks]
    return None if None in found else tuple(sorted(r for r in found if r is not None))


def shown_ranks(comm: Communicator, ranks: Iterable[int]) -> tuple[int, ...]:
    """Global ranks where known, else the ranks inside `comm`, which the title then names."""
    ranks = tuple(ranks)
    return global_ranks(comm, ranks) or ranks


def process_of(job: Job, comm: Communicator, rank: int) -> Process | None:
    """The process of a rank inside `comm`."""
    index = comm.members[rank].process
    return None if index is None else job.processes[index]


def hosts(job: Job, comm: Communicator, ranks: Iterable[int]) -> tuple[str, ...]:
    """The hosts of these ranks inside `comm`, sorted."""
    found = {p.host for r in ranks if (p := process_of(job, comm, r)) is not None and p.host}
    return tuple(sorted(found))
