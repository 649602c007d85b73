"""What the outputs tell of a job: the `jobs` entry of the JSON, as plain dicts, lists, strings and numbers."""

from collections.abc import Iterable, Mapping
from typing import Any

from nccldoctor.correlate.backends import backends
from nccldoctor.correlate.buffers import buffers
from nccldoctor.correlate.scene import Expected, scene
from nccldoctor.model.event import Event
from nccldoctor.model.events.nccl import DriverVersion, EnvironmentSet, NetworkChosen, Version
from nccldoctor.model.events.recorder import RecorderDump
from nccldoctor.model.events.watched import ProcessEnvironment
from nccldoctor.model.job import Communicator, Divergence, Job, Lane, Origin

_TRUST = (Origin.CALLS, Origin.RECORDER, Origin.WATCHDOG, Origin.RAS)
_RECENT = 8
_PREFIXES = ("NCCL_", "RCCL_", "TORCH_", "GLOO_", "CUDA_", "HSA_", "HIP_", "ROCR_", "FI_", "UCX_")


def facts(job: Job, expected: Expected | None = None) -> dict[str, Any]:
    """The job as the JSON and the pictures show it; ranks are global unless the key says otherwise.

    `expected` tells what a measured bandwidth should be.
    """
    return {
        "world_size": job.world_size,
        "partial": job.partial,
        "hosts": [
            {
                "name": h.name,
                "ranks": list(h.ranks),
                "gpus": list(h.gpus),
                "nics": list(h.nics),
                "addresses": list(h.addresses),
            }
            for h in job.hosts
        ],
        "ranks": _ranks(job),
        "communicators": _communicators(job),
        "versions": _versions(job),
        "networks": _by_rank(job, ((e, e.network) for e in job.events(NetworkChosen))),
        "backends": backends(job),
        "buffers": buffers(job),
        "environment": _environment(job),
        **scene(job, expected),
    }


def _ranks(job: Job) -> list[dict[str, Any]]:
    heard: list[dict[str, Any]] = [
        {
            "rank": p.rank,
            "host": p.host,
            "pid": p.pid,
            "local_rank": p.local_rank,
            "gpu": p.device,
            "bus_id": p.bus_id,
            "last_stage": p.last_stage,
            "heard": True,
            "files": list(p.files),
        }
        for p in job.processes
    ]
    known = {p.rank for p in job.processes}
    silent: list[dict[str, Any]] = [
        {
            "rank": rank,
            "host": None,
            "pid": None,
            "local_rank": None,
            "gpu": None,
            "bus_id": None,
            "last_stage": None,
            "heard": False,
            "files": [],
        }
        for rank in range(job.world_size or 0)
        if rank not in known
    ]
    return sorted(heard + silent, key=_rank_order)


def _rank_order(entry: Mapping[str, Any]) -> tuple[bool, int, str, int]:
    return (
        entry["rank"] is None,
        entry["rank"] if entry["rank"] is not None else 0,
        entry["host"] or "",
        entry["pid"] or 0,
    )


def _communicators(job: Job) -> list[dict[str, Any]]:
    lanes: dict[str, dict[int, list[Lane]]] = {}
    for lane in job.lanes:
        lanes.setdefault(lane.communicator, {}).setdefault(lane.rank, []).append(lane)
    partings: dict[str, list[Divergence]] = {}
    for divergence in job.divergences:
        partings.setdefault(divergence.communicator, []).append(divergence)
    return [
        {
            "id": c.id,
            "name": c.name,
            "size": c.size,
            "ranks": [m.global_rank for m in c.members],
            "parent": c.parent,
            "group": c.group,
            "network": c.network,
            "channels": c.channels,
            "stages": _stages(c),
            "calls": {
                str(rank): _progress(own) for rank, own in sorted(lanes.get(c.id, {}).items())
            },
            "divergence": _divergence(partings.get(c.id, [])),
        }
        for c in job.communicators
    ]


def _stages(communicator: Communicator) -> dict[str, list[int]]:
    """Stage of init reached → ranks inside the communicator."""
    result: dict[str, list[int]] = {}
    for member in communicator.members:
        result.setdefault(member.stage or "not heard of", []).append(member.rank)
    return dict(sorted(result.items()))


def _progress(lanes: list[Lane]) -> dict[str, Any]:
    """How far one rank is, by the most telling source; `also` has the others.

    A source that cannot tell what has completed borrows that from one that counts the same calls.
    """
    first, *rest = sorted(lanes, key=lambda lane: _TRUST.index(lane.origin))
    return {
        "origin": first.origin.value,
        "issued": first.issued,
        "completed": next(
            (
                o.completed
                for o in (first, *rest)
                if o.issued == first.issued and o.completed is not None
            ),
            None,
        ),
        "last": None if first.last is None else str(first.last),
        "recent": [str(call) for call in first.recent[-_RECENT:]],
        "first_recent": first.first_recent + max(0, len(first.recent) - _RECENT),
        "by_op": dict(sorted(first.by_op.items())),
        "file": first.line.file if first.line else None,
        "line": first.line.number if first.line else None,
        "also": [
            {"origin": o.origin.value, "issued": o.issued, "completed": o.completed} for o in rest
        ],
    }


def _divergence(partings: list[Divergence]) -> dict[str, Any] | None:
    """The first parting of ways, by the most telling source: ordinal and call → ranks inside the communicator."""
    if not partings:
        return None
    first = min(partings, key=lambda d: (_TRUST.index(d.origin), d.ordinal))
    calls: dict[str, list[int]] = {}
    for rank, call in sorted(first.calls.items()):
        calls.setdefault(str(call), []).append(rank)
    return {
        "origin": first.origin.value,
        "ordinal": first.ordinal,
        "calls": calls,
        "torn": first.torn,
    }


def _versions(job: Job) -> dict[str, dict[str, list[int]]]:
    said: dict[str, list[tuple[Event, str]]] = {}
    for version in job.events(Version):
        said.setdefault(version.library, []).append((version, version.version))
        if version.cuda:
            said.setdefault("cuda", []).append((version, version.cuda))
    for driver in job.events(DriverVersion):
        said.setdefault("driver", []).append((driver, _cuda(driver.version)))
    for dump in job.events(RecorderDump):
        if dump.library_version:
            said.setdefault("nccl", []).append((dump, dump.library_version))
    return {name: _by_rank(job, values) for name, values in sorted(said.items())}


def _cuda(number: int) -> str:
    return f"CUDA {number // 1000}.{number % 1000 // 10}"


def _environment(job: Job) -> list[dict[str, Any]]:
    """Each variable's values and who has them; `missing` are ranks that told of others but not of this one."""
    said: dict[str, list[tuple[Event, str]]] = {}
    for event in job.events(EnvironmentSet):
        said.setdefault(event.variable, []).append((event, event.value))
    for saved in job.events(ProcessEnvironment):
        for name, value in saved.variables.items():
            if name.startswith(_PREFIXES):
                said.setdefault(name, []).append((saved, value))
    values = {name: _by_rank(job, pairs) for name, pairs in sorted(said.items())}
    speakers = sorted({r for by in values.values() for ranks in by.values() for r in ranks})
    result = []
    for name, by in values.items():
        having = {r for ranks in by.values() for r in ranks}
        missing = [r for r in speakers if r not in having]
        differs = len(by) > 1 or bool(missing)
        result.append({"name": name, "values": by, "missing": missing, "differs": differs})
    return sorted(result, key=lambda v: (not v["differs"], v["name"]))


def _by_rank(job: Job, pairs: Iterable[tuple[Event, str]]) -> dict[str, list[int]]:
    """Value → the global ranks that said it, sorted; an empty list where nobody knows whose word it is."""
    result: dict[str, set[int]] = {}
    for event, value in pairs:
        ranks = result.setdefault(value, set())
        rank = job.rank_of(event)
        if rank is not None:
            ranks.add(rank)
    return {value: sorted(ranks) for value, ranks in sorted(result.items())}
