"""What happened when, on which host: the few events that matter, on one clock."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from nccldoctor.correlate.clocks import Clocks
from nccldoctor.model.event import Event
from nccldoctor.model.events import machine, nccl, ras, torch, trouble
from nccldoctor.model.job import Job

_MOST = 400

_TOLD: dict[type[Event], tuple[str, Callable[[Any], str]]] = {
    nccl.CommStart: ("init", lambda e: f"starts to join a communicator of {e.nranks}"),
    nccl.CommComplete: ("init", lambda e: f"has joined a communicator of {e.nranks}"),
    nccl.CommGone: ("end", lambda e: f"{e.how.lower()}s its communicator"),
    trouble.Warned: ("warning", lambda e: e.message),
    trouble.DuplicateGpu: ("error", lambda e: "shares a GPU with another rank"),
    trouble.PeerClosed: ("error", lambda e: f"loses its connection to {e.peer or 'a peer'}"),
    trouble.ConnectFailed: ("error", lambda e: f"cannot connect to {e.peer}: {e.reason}"),
    trouble.CompletionError: ("error", lambda e: f"InfiniBand completion with status {e.status}"),
    trouble.CudaFailure: ("error", lambda e: f"CUDA failure: {e.reason}"),
    trouble.AllocationFailed: ("error", lambda e: f"cannot allocate {e.memory} memory"),
    trouble.SharedMemoryFailed: ("error", lambda e: f"shared memory fails: {e.reason or ''}"),
    torch.WatchdogTimeout: ("error", lambda e: f"times out in {e.op} #{e.sequence}"),
    torch.WatchdogStuck: (
        "error",
        lambda e: "watchdog stuck" + f" for {e.seconds} s" * bool(e.seconds),
    ),
    torch.FingerprintMismatch: ("error", lambda e: f"calls {e.op} while others call {e.other_op}"),
    torch.BackendError: ("error", lambda e: f"NCCL error: {e.error}"),
    torch.PythonException: ("error", lambda e: f"raises {e.type}: {e.message}"),
    torch.CudaError: ("error", lambda e: f"CUDA error: {e.reason}"),
    torch.StoreTimeout: ("error", lambda e: f"store times out: {e.what}"),
    torch.StoreLost: ("error", lambda e: "loses the store"),
    torch.ProcessEnded: ("end", lambda e: f"ends with exit code {e.exit_code}"),
    machine.Xid: ("error", lambda e: f"GPU {e.bus_id}: {'SXid' if e.switch else 'Xid'} {e.number}"),
    machine.OomKilled: ("error", lambda e: f"kills process {e.killed_pid} for memory"),
    ras.RasSnapshot: ("note", lambda e: "RAS answers"),
}


def chronicle(job: Job, clocks: Clocks) -> list[dict[str, Any]]:
    """Events with a time, oldest first; equal words at the same second are one entry with all their ranks.

    At most 400 entries: beyond that the middle goes, and one entry says how many went. Times are ISO 8601, UTC.
    """
    grouped: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    for kind, (tone, tell) in _TOLD.items():
        for event in job.events(kind):
            when = clocks.time(event)
            if when is None:
                continue
            host, words = job.host_of(event) or "", tell(event)[:200]
            key = (_second(when), host, tone, words)
            entry = grouped.setdefault(
                key,
                {
                    "time": when.isoformat(),
                    "host": host or None,
                    "tone": tone,
                    "what": words,
                    "ranks": [],
                    "file": event.line.file,
                    "line": event.line.number,
                },
            )
            rank = job.rank_of(event)
            if rank is not None and rank not in entry["ranks"]:
                entry["ranks"].append(rank)
    entries = sorted(grouped.values(), key=lambda e: (e["time"], e["host"] or "", e["what"]))
    for entry in entries:
        entry["ranks"].sort()
    return _shortened(entries)


def _second(when: datetime) -> str:
    return when.isoformat(timespec="seconds")


def _shortened(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(entries) <= _MOST:
        return entries
    half = _MOST // 2
    gone = len(entries) - 2 * half
    gap = {**entries[half], "tone": "note", "what": f"… {gone} entries more …", "ranks": []}
    gap.update(host=None, file=None, line=None)
    return [*entries[:half], gap, *entries[-half:]]
