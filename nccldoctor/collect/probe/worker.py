"""One rank of the probe: `python -m nccldoctor.collect.probe.worker SETTINGS RECORDS`; needs only torch.

It appends a JSON line to RECORDS before and after each step, so that its supervisor knows where it stands.
"""

import ctypes
import faulthandler
import importlib
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from nccldoctor.collect.probe import device as devices
from nccldoctor.collect.probe import measure, ops, plan
from nccldoctor.collect.probe.exchange import Exchange, Records

INIT_SECONDS = 300
_PR_SET_PDEATHSIG = 1
LEAST_SECONDS = 3.0


def _die_with_the_probe() -> None:
    """A worker does not outlive the probe, however that ends: Linux kills it with its parent."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main(settings_file: str, records_file: str) -> None:
    _die_with_the_probe()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    settings = plan.Settings.from_json(Path(settings_file).read_text(encoding="utf-8"))
    records = Records(Path(records_file))
    records.write("begin", step="import torch")
    torch = importlib.import_module("torch")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    records.write("begin", step="init")
    device, mine = devices.choose(torch, settings)
    mine["rank"] = rank
    store = _store(torch, settings, rank, world)
    if settings.backend == "nccl" and settings.diagnostics:
        _switch_on_diagnostics(torch)
    torch.distributed.init_process_group(
        settings.backend,
        store=torch.distributed.PrefixStore("group", store),
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=INIT_SECONDS),
        **({"device_id": device} if device.type == "cuda" else {}),
    )
    exchange = Exchange(torch.distributed.PrefixStore("probe", store), rank, world)
    everyone = exchange.all("facts", mine)
    records.write("rank", **mine)
    hosts = [str(other["host"]) for other in everyone]
    free = min(int(other["free"]) for other in everyone)
    largest = min(settings.largest_bytes, max(plan.KIB, free // 8))
    bench = measure.Bench(torch, device, settings.plant, rank)
    handles = _handles(torch, plan.groups(hosts))
    work = Work(settings, records, exchange, bench, handles, largest, time.monotonic())
    _run(torch, work, hosts)
    records.write("begin", step="end")
    exchange.all("end", {})
    if not settings.store:
        _gather(records, exchange)
    torch.distributed.destroy_process_group()
    records.write("done")


def _gather(records: Records, exchange: Exchange) -> None:
    """What the ranks under other supervisors recorded, into rank 0's records."""
    others = exchange.all("records", {"kept": records.kept})
    if exchange.rank == 0:
        for other in others[1:]:
            for record in other["kept"]:
                records.write(**record)


@dataclass(frozen=True)
class Work:
    """What every step needs.

    `handles` are PyTorch's groups, by name and in the order of the plan; `largest` is the most bytes of a message,
    `start` the moment of the first step.
    """

    settings: plan.Settings
    records: Records
    exchange: Exchange
    bench: measure.Bench
    handles: dict[str, list[Any]]
    largest: int
    start: float

    def goes_on(self, key: str, what: str) -> bool:
        """May this step begin? Rank 0 decides for all; what it refuses is recorded as skipped."""
        go = self.exchange.decide(key, _time_left(self.settings, self.start))
        if not go:
            self.records.write("skipped", step=what, because="time is up")
        return go


def _handles(torch: Any, known: plan.Groups) -> dict[str, list[Any]]:
    return {
        name: [torch.distributed.new_group(list(g)) for g in parts] if name != "world" else [None]
        for name, parts in known.by_name.items()
    }


def _run(torch: Any, work: Work, hosts: list[str]) -> None:
    rank, known = work.exchange.rank, plan.groups(hosts)
    for number, step in enumerate(plan.steps(work.settings, known, work.largest)):
        if not work.goes_on(f"go/{number}", step.name):
            continue
        members = known.of(step.group, rank)
        if members is None:
            continue
        handle = work.handles[step.group][known.by_name[step.group].index(members)]
        seat = ops.Seat(torch, work.bench.device, handle, members, members.index(rank))
        _step(work, seat, step, f"s{number}")
    if work.settings.steps in ("quick", "full") and len(hosts) > 2:
        _pairs(torch, work, hosts)


def _time_left(settings: plan.Settings, start: float) -> bool:
    """May another step begin? However late the first one came, some seconds are given to it and its like."""
    spent = time.monotonic() - start
    late = settings.until and time.monotonic() > settings.until and spent > LEAST_SECONDS
    return spent < settings.seconds and not late


def _pairs(torch: Any, work: Work, hosts: list[str]) -> None:
    exchange = work.exchange
    most = 64 * plan.MIB if work.settings.device == "cuda" else 256 * plan.KIB
    for number, pairs in enumerate(plan.rounds(hosts)):
        if not work.goes_on(f"pairs/{number}", f"pairs {number}"):
            return
        mine = next((pair for pair in pairs if exchange.rank in pair), None)
        if mine is not None:
            seat = ops.Seat(torch, work.bench.device, None, mine, mine.index(exchange.rank))
            size = min(work.largest, most)
            step = plan.Step("sendrecv", size, group="pair", warmup=1, iterations=5)
            _step(work, seat, step, f"p{number}")
        exchange.all(f"pairs/{number}/end", {})


def _step(work: Work, seat: ops.Seat, step: plan.Step, key: str) -> None:
    """One step; the first member of the group writes the row, over what all members measured."""
    records, exchange = work.records, work.exchange
    records.write("begin", step=step.name, members=list(seat.members))
    try:
        mine = work.bench.measure(seat, step)
    except Exception as error:  # one collective that this backend lacks must not cost the others
        if seat.torch.cuda.is_available() or not _unsupported(error):
            raise
        records.write("skipped", step=step.name, because=str(error).splitlines()[0][:200])
        return
    exchange.tell(key, mine)
    if not seat.index:
        every = [json.loads(exchange.store.get(f"{key}/{rank}")) for rank in seat.members]
        records.write("row", **_row(seat, step, every))


def _row(seat: ops.Seat, step: plan.Step, every: list[dict[str, Any]]) -> dict[str, Any]:
    """What the members of a group measured, `every` in their order, as one row."""
    size = every[0]["size_bytes"]
    time_us = max(one["median_us"] for one in every)
    algorithm = size / time_us / 1e3 if time_us else 0.0
    by_rank = {str(rank): one for rank, one in zip(seat.members, every, strict=True)}
    return {
        "op": ops.NCCL_NAMES[step.op],
        "size_bytes": size,
        "datatype": step.datatype,
        "group": step.group,
        "variant": step.variant,
        "members": list(seat.members),
        "time_us": round(time_us, 3),
        "p95_us": round(max(one["p95_us"] for one in every), 3),
        "algorithm_gbytes_per_second": round(algorithm, 4),
        "bus_gbytes_per_second": round(algorithm * ops.bus_factor(step.op, seat.size), 4),
        "wrong": sum(one["wrong"] for one in every),
        "wrong_by_rank": {rank: one["wrong"] for rank, one in by_rank.items() if one["wrong"]},
        "rank_us": {rank: round(one["own_us"], 3) for rank, one in by_rank.items()},
    }


def _unsupported(error: Exception) -> bool:
    text = str(error).lower()
    return any(word in text for word in ("support", "not implemented", "invalid scalar type"))


def _store(torch: Any, settings: plan.Settings, rank: int, world: int) -> Any:
    if settings.store:
        return torch.distributed.FileStore(settings.store, world)
    return next(torch.distributed.rendezvous("env://", rank, world))[0]


def _switch_on_diagnostics(torch: Any) -> None:
    """NCCL's own checks, from the version on that has them, unless the user set them."""
    if devices.nccl_version(torch) >= (2, 31):
        os.environ.setdefault("NCCL_RUN_DIAGNOSTICS", "1")
        os.environ.setdefault("NCCL_RUN_RAS_DIAGNOSTICS", "1")


if __name__ == "__main__":
    main(*sys.argv[1:])
