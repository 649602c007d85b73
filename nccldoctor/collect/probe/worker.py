"""One rank of the probe: `python -m nccldoctor.collect.probe.worker SETTINGS RECORDS`; needs only torch.

It appends a JSON line to RECORDS before and after each step, so that its supervisor knows where it stands.
"""

import ctypes
import faulthandler
import importlib
import json
import os
import signal
import socket
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from nccldoctor.collect.probe import measure, ops, plan

INIT_SECONDS = 300
_PR_SET_PDEATHSIG = 1
EXCHANGE_SECONDS = 600
LEAST_SECONDS = 3.0


class Records:
    """The file of JSON lines that this rank writes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self.kept: list[dict[str, Any]] = []

    def write(self, kind: str, **facts: Any) -> None:
        if kind in ("row", "rank"):
            self.kept.append({"kind": kind, **facts})
        self._file.write(json.dumps({"kind": kind, **facts}) + "\n")
        self._file.flush()


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
    device, mine = _device(torch, settings)
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
    _run(torch, settings, records, exchange, device, hosts, min(o["free"] for o in everyone))
    records.write("begin", step="end")
    exchange.all("end", {})
    if not settings.store:
        _gather(records, exchange)
    torch.distributed.destroy_process_group()
    records.write("done")


def _gather(records: Records, exchange: "Exchange") -> None:
    """What the ranks under other supervisors recorded, into rank 0's records."""
    others = exchange.all("records", {"kept": records.kept})
    if exchange.rank == 0:
        for other in others[1:]:
            for record in other["kept"]:
                records.write(**record)


class Exchange:
    """Small facts between ranks through the store, so that they pass also where a collective is broken."""

    def __init__(self, store: Any, rank: int, world: int) -> None:
        self.store, self.rank, self.world = store, rank, world
        store.set_timeout(timedelta(seconds=EXCHANGE_SECONDS))

    def all(self, key: str, mine: dict[str, Any]) -> list[dict[str, Any]]:
        """What every rank says under this key; waits for all."""
        self.tell(key, mine)
        return [json.loads(self.store.get(f"{key}/{rank}")) for rank in range(self.world)]

    def tell(self, key: str, mine: dict[str, Any]) -> None:
        self.store.set(f"{key}/{self.rank}", json.dumps(mine))

    def decide(self, key: str, choice: bool) -> bool:
        """Rank 0's choice, on every rank."""
        if self.rank == 0:
            self.store.set(key, "1" if choice else "0")
        return bool(self.store.get(key) == b"1")


def _run(
    torch: Any,
    settings: plan.Settings,
    records: Records,
    exchange: Exchange,
    device: Any,
    hosts: list[str],
    free: int,
) -> None:
    rank, known = exchange.rank, plan.groups(hosts)
    handles = {
        name: [torch.distributed.new_group(list(g)) for g in parts] if name != "world" else [None]
        for name, parts in known.by_name.items()
    }
    bench = measure.Bench(torch, device, settings.plant, rank)
    largest = min(settings.largest_bytes, max(plan.KIB, free // 8))
    start = time.monotonic()
    for number, step in enumerate(plan.steps(settings, known, largest)):
        if not exchange.decide(f"go/{number}", _time_left(settings, start)):
            records.write("skipped", step=step.name, because="time is up")
            continue
        members = known.of(step.group, rank)
        if members is None:
            continue
        parts = known.by_name[step.group]
        seat = ops.Seat(
            torch, device, handles[step.group][parts.index(members)], members, members.index(rank)
        )
        _step(records, exchange, bench, seat, step, f"s{number}")
    if settings.steps in ("quick", "full") and len(hosts) > 2:
        _pairs(torch, settings, records, exchange, bench, hosts, largest, start)


def _time_left(settings: plan.Settings, start: float) -> bool:
    """May another step begin? However late the first one came, some seconds are given to it and its like."""
    spent = time.monotonic() - start
    late = settings.until and time.time() > settings.until and spent > LEAST_SECONDS
    return spent < settings.seconds and not late


def _pairs(
    torch: Any,
    settings: plan.Settings,
    records: Records,
    exchange: Exchange,
    bench: measure.Bench,
    hosts: list[str],
    largest: int,
    start: float,
) -> None:
    size = min(largest, 64 * plan.MIB if settings.device == "cuda" else 256 * plan.KIB)
    for number, pairs in enumerate(plan.rounds(hosts)):
        if not exchange.decide(f"pairs/{number}", _time_left(settings, start)):
            records.write("skipped", step=f"pairs {number}", because="time is up")
            return
        mine = next((pair for pair in pairs if exchange.rank in pair), None)
        if mine is not None:
            seat = ops.Seat(torch, bench.device, None, mine, mine.index(exchange.rank))
            step = plan.Step("sendrecv", size, group="pair", warmup=1, iterations=5)
            _step(records, exchange, bench, seat, step, f"p{number}")
        exchange.all(f"pairs/{number}/end", {})


def _step(
    records: Records,
    exchange: Exchange,
    bench: measure.Bench,
    seat: ops.Seat,
    step: plan.Step,
    key: str,
) -> None:
    """One step; the first member of the group writes the row, over what all members measured."""
    records.write("begin", step=step.name, members=list(seat.members))
    try:
        mine = bench.measure(seat, step)
    except Exception as error:  # one collective that this backend lacks must not cost the others
        if seat.torch.cuda.is_available() or not _unsupported(error):
            raise
        records.write("skipped", step=step.name, because=str(error).splitlines()[0][:200])
        return
    exchange.tell(key, mine)
    if seat.index:
        return
    all_mine = [json.loads(exchange.store.get(f"{key}/{rank}")) for rank in seat.members]
    time_us = max(one["median_us"] for one in all_mine)
    size = mine["size_bytes"]
    algorithm = size / time_us / 1e3 if time_us else 0.0
    records.write(
        "row",
        op=ops.NCCL_NAMES[step.op],
        size_bytes=size,
        datatype=step.datatype,
        group=step.group,
        variant=step.variant,
        members=list(seat.members),
        time_us=round(time_us, 3),
        p95_us=round(max(one["p95_us"] for one in all_mine), 3),
        algorithm_gbytes_per_second=round(algorithm, 4),
        bus_gbytes_per_second=round(algorithm * ops.bus_factor(step.op, seat.size), 4),
        wrong=sum(one["wrong"] for one in all_mine),
        wrong_by_rank={
            str(rank): one["wrong"]
            for rank, one in zip(seat.members, all_mine, strict=True)
            if one["wrong"]
        },
        rank_us={
            str(rank): round(one["own_us"], 3)
            for rank, one in zip(seat.members, all_mine, strict=True)
        },
    )


def _unsupported(error: Exception) -> bool:
    text = str(error).lower()
    return any(word in text for word in ("support", "not implemented", "invalid scalar type"))


def _store(torch: Any, settings: plan.Settings, rank: int, world: int) -> Any:
    if settings.store:
        return torch.distributed.FileStore(settings.store, world)
    return next(torch.distributed.rendezvous("env://", rank, world))[0]


def _device(torch: Any, settings: plan.Settings) -> tuple[Any, dict[str, Any]]:
    """This rank's device, and what is known of it."""
    facts: dict[str, Any] = {
        "host": socket.gethostname().partition(".")[0],  # as NCCL names it in its logs
        "pid": os.getpid(),
        "torch": torch.__version__,
        "backend": settings.backend,
    }
    if settings.device != "cuda":
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        local_world = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
        return torch.device("cpu"), {**facts, "device": "CPU", "free": free // local_world}
    index = int(os.environ.get("NCCLDOCTOR_PROBE_DEVICE", os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(index)
    properties = torch.cuda.get_device_properties(index)
    return torch.device("cuda", index), {
        **facts,
        "nccl": ".".join(map(str, _nccl_version(torch))),
        "cuda": torch.version.cuda or torch.version.hip,
        "device": properties.name,
        "uuid": f"GPU-{properties.uuid}" if hasattr(properties, "uuid") else None,
        "bus_id": _bus_id(properties),
        "free": torch.cuda.mem_get_info(index)[0],
    }


def _nccl_version(torch: Any) -> tuple[int, ...]:
    """The version of the NCCL or RCCL in this process; torch tells only which one it was built with."""
    for name in ("libnccl.so.2", "librccl.so.1"):
        number = ctypes.c_int()
        try:
            library = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
            failed = library.ncclGetVersion(ctypes.byref(number))
        except (OSError, AttributeError):
            continue
        if not failed:
            return plan.version_of(number.value)
    return tuple(torch.cuda.nccl.version())


def _bus_id(properties: Any) -> str | None:
    if not hasattr(properties, "pci_bus_id"):
        return None
    domain = getattr(properties, "pci_domain_id", 0)
    return f"{domain:08x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"


def _switch_on_diagnostics(torch: Any) -> None:
    """NCCL's own checks, from the version on that has them, unless the user set them."""
    if _nccl_version(torch) >= (2, 31):
        os.environ.setdefault("NCCL_RUN_DIAGNOSTICS", "1")
        os.environ.setdefault("NCCL_RUN_RAS_DIAGNOSTICS", "1")


if __name__ == "__main__":
    main(*sys.argv[1:])
