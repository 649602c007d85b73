"""A step of the probe did not end, or one of its ranks died; the isolation tells which device or link.

After a failure nccldoctor probe tries each GPU alone, then every pair of those that pass. Who fails alone is broken by
itself; a pair that fails although each passes alone has a broken link, or P2P between them does not work. Where alone
and in pairs all pass, only the whole is too much: look at the network, at memory, or at the step itself.
With --levers the same collective runs once as it is and once under each of NCCL's settings: what fails plainly and
passes with one layer switched off is broken in that layer. A lever that fails while the plain run passes is no fault.
"""

from collections.abc import Iterable, Sequence

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines, some, who_ranks
from nccldoctor.model.events.measured import ProbeFailure, ProbeLever, ProbeRank
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "HW06"
name = "probe-failed"
severity = Severity.ERROR
needs = (Evidence.BANDWIDTH,)
explains = ("HANG01", "HANG02", "HANG04", "NET10", "PERF01")
look_first = True
confirm = (
    "nccldoctor probe --levers  # which layer: fails as it is, passes with P2P off → P2P",
    "dmesg -T | grep -i -e xid -e sxid  # what the driver says of this GPU",
)
remedy = (
    "sudo nvidia-smi --gpu-reset -i INDEX  # once nothing runs on it any more; costs what does",
    "export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6  # without the device that fails alone, until it is replaced; costs its share of the speed",
)


_BAD = ("stuck", "failed", "wrong")


def check(job: Job) -> Iterable[Found]:
    """The smallest party that fails, and the layer without which nothing fails."""
    yield from _by_party(job, job.events(ProbeFailure))
    yield from _by_lever(job.events(ProbeLever))


def _by_lever(levers: Sequence[ProbeLever]) -> Iterable[Found]:
    plain = next((lever for lever in levers if not lever.variables), None)
    if plain is None or plain.state not in _BAD:
        return
    passed = [lever for lever in levers if lever.state == "ok" and lever.layer]
    if passed:
        names = some([lever.name for lever in passed])
        layers = some(list(dict.fromkeys(lever.layer for lever in passed)))
        ending = f"passes with {names}: the fault is in {layers}"
    else:
        ending = "and under every setting tried: the fault lies below all of NCCL's layers"
    fallback = [" ".join(f"{k}={v}" for k, v in lever.variables.items()) for lever in passed]
    yield Found(
        title=f"The probe is {plain.state} as it is, {ending}",
        evidence=lines([plain, *passed]),
        confidence=Confidence.HIGH if passed else Confidence.MEDIUM,
        remedy=(
            *(f"export {text}  # until it is mended; costs bandwidth" for text in fallback[:1]),
            *remedy,
        ),
    )


def _by_party(job: Job, failures: Sequence[ProbeFailure]) -> Iterable[Found]:
    if not failures:
        return
    alone = [f for f in failures if f.step.startswith("single ")]
    pairs = [f for f in failures if f.step.startswith("pair ")]
    whole = [f for f in failures if f not in alone and f not in pairs]
    isolated = any(rank.passed is not None for rank in job.events(ProbeRank)) or alone or pairs
    if alone:
        ranks = tuple(sorted({rank for f in alone for rank in f.ranks}))
        what = f" fails alone ({_how(alone)}): the fault is in the device, its driver or its host"
    elif pairs:
        ranks = _shared(pairs)
        parties = some([" and ".join(map(str, f.ranks)) for f in pairs])
        what = (
            f"{_how(pairs)} between ranks {parties}, though each passes alone: the way between them"
        )
    else:
        ranks = tuple(sorted({rank for f in whole for rank in f.missing}))
        ending = "; alone and in pairs all pass" if isolated else ""
        what = f": {_how(whole)} in {whole[0].step} over {len(whole[0].ranks)} ranks{ending}"
    hosts = tuple(sorted({h for rank in ranks if (h := job.host_of_rank(rank))}))
    yield Found(
        title=f"{who_ranks(ranks, hosts, 'The probe')}{what}{_devices(job, ranks)}",
        evidence=lines([*alone, *pairs, *whole]),
        confidence=Confidence.HIGH if alone or pairs else Confidence.MEDIUM,
        ranks=ranks,
        hosts=hosts,
    )


def _how(failures: Sequence[ProbeFailure]) -> str:
    return " and ".join(sorted({f.kind for f in failures}))


def _shared(pairs: Sequence[ProbeFailure]) -> tuple[int, ...]:
    """The one rank in all of several failing pairs, else everyone in them."""
    common = set.intersection(*({*f.ranks} for f in pairs))
    if len(pairs) > 1 and len(common) == 1:
        return tuple(common)
    return tuple(sorted({rank for f in pairs for rank in f.ranks}))


def _devices(job: Job, ranks: Sequence[int]) -> str:
    named = [
        f"rank {r.rank} is {r.device} {r.bus_id}"
        for r in job.events(ProbeRank)
        if r.rank in ranks and r.bus_id
    ]
    return f" ({some(named)})" if named else ""


_RANKS = """{"nccldoctor": "snapshot", "schema": 1, "host": "n1", "probe": {"ranks": [
 {"rank": 0, "host": "n1", "pid": 10, "device": "GPU", "bus_id": "0000:01:00.0"},
 {"rank": 1, "host": "n1", "pid": 11, "device": "GPU", "bus_id": "0000:02:00.0"}], "rows": [
 {"op": "AllReduce", "size_bytes": 65536, "group": "single", "members": [0], "time_us": 17, "algorithm_gbytes_per_second": 3, "bus_gbytes_per_second": 0}],
 "failures": ["""

fires_on = {
    "alone": _RANKS
    + """{"step": "all_reduce float32 1 KiB", "kind": "stuck", "ranks": [0, 1], "missing": [], "text": "no progress"},
 {"step": "single 1", "kind": "stuck", "ranks": [1], "missing": [], "text": "no progress"}]}}""",
    "together": _RANKS
    + """{"step": "all_reduce float32 1 KiB", "kind": "stuck", "ranks": [0, 1], "missing": [], "text": "no progress"}]}}""",
}
_LEVERS = """{"nccldoctor": "snapshot", "schema": 1, "host": "n1", "probe": {"ranks": [], "rows": [], "failures": [], "levers": [
 {"name": "as it is", "environment": {}, "layer": "", "state": "STATE", "rows": []},
 {"name": "P2P off", "environment": {"NCCL_P2P_DISABLE": "1"}, "layer": "GPU peer-to-peer", "state": "ok", "rows": []},
 {"name": "LL128 only", "environment": {"NCCL_PROTO": "LL128"}, "layer": "the Simple and LL protocols", "state": "failed", "rows": []}]}}
"""
fires_on["lever"] = _LEVERS.replace("STATE", "stuck")
silent_on = {"nothing failed": _RANKS + "]}}", "lever fails": _LEVERS.replace("STATE", "ok")}
