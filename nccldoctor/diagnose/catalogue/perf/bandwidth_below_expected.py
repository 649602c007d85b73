"""Collectives are slower than the links between these ranks allow, or than the same call between other ranks.

A measurement (nccldoctor probe, nccl-tests) is set against what NCCL itself counts on for the link type, scaled by what
healthy machines reach. Causes are traffic that does not take the fast link (P2P off, sockets inside a host), few
channels, a degraded link, a slow GPU, or a rank that always comes late. It is not a fault that small messages are slow:
they are only as fast as a call can start. Where the links are not known, this is "not checked".
"""

from collections.abc import Iterable, Mapping, Set
from statistics import median

from nccldoctor.diagnose.diagnosis import CannotCheck, Found
from nccldoctor.diagnose.hardware import Expectation, expectation
from nccldoctor.diagnose.words import lines, ranges, size, who_ranks
from nccldoctor.knowledge.links import ENOUGH
from nccldoctor.model.events.measured import BandwidthRow, ProbeRank
from nccldoctor.model.events.nccl import Edge
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "PERF01"
name = "bandwidth-below-expected"
severity = Severity.WARNING
needs = (Evidence.BANDWIDTH,)
explains = ()
look_first = True
confirm = (
    "nccldoctor probe --levers; nccldoctor topo  # which layer costs the speed; are all links up, and which GPUs do they join",
    "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH  # for one run: which transport each pair uses, how many channels",
)
remedy = (
    "unset NCCL_P2P_DISABLE NCCL_SHM_DISABLE NCCL_IB_DISABLE NCCL_ALGO NCCL_PROTO NCCL_MAX_NCHANNELS  # where any is set; costs nothing unless the fault that it hid comes back",
    "scontrol update nodename=HOST state=drain reason=slow  # where one pair or host is slow and nothing is set; costs its GPUs",
)

SEVERE = 0.3
"""Below this part of the expectation there is no other reading of it."""

OUTLIER = 0.6
"""A pair is slow when it reaches less than this part of the median pair."""

COPY_BYTES = 64 << 20
"""Smaller copies fit into caches, and tell of launches rather than of memory."""

LATE_US = 1000.0
LATE_SHARE = 0.8
LATE_ROWS = 5
_MEETING = ("AllReduce", "AllGather", "ReduceScatter", "AlltoAll", "Barrier")


def check(job: Job) -> Iterable[Found]:
    """Late ranks first, then slow pairs, then what all ranks together do not reach."""
    rows = [r for r in job.events(BandwidthRow) if r.group not in ("lever", "single")]
    found = [*_late(job, rows), *_slow_devices(job, rows), *_slow_pairs(job, rows)]
    judged = [
        (row, expect)
        for row in rows
        if not row.variant
        and row.datatype in (None, "float32")
        and (expect := expectation(job, row))
    ]
    named = {rank for one in found for rank in one.ranks}
    found += _slow(job, judged, named)
    if not found and not judged and any(row.group == "world" for row in rows):
        raise CannotCheck(_why_not(job, rows), "nccldoctor topo --json topo.json on this machine")
    return found


def _slow(
    job: Job, judged: Iterable[tuple[BandwidthRow, Expectation]], named: Set[int]
) -> Iterable[Found]:
    """One finding for each source and group of ranks: the row that falls shortest at its largest size.

    Where a rank of the group is named already, what all reach together follows from it.
    """
    groups: dict[tuple[str, str, tuple[int, ...]], list[tuple[BandwidthRow, Expectation]]] = {}
    for row, expect in judged:
        part = row.bus_gbytes_per_second / expect.gbytes_per_second
        if part < ENOUGH[expect.fabric.kind] and row.group != "pair":
            groups.setdefault((row.line.file, row.group, row.members), []).append((row, expect))
    for (_, group, members), slow in groups.items():
        row, expect = min(slow, key=lambda s: s[0].bus_gbytes_per_second / s[1].gbytes_per_second)
        part = row.bus_gbytes_per_second / expect.gbytes_per_second
        kinds = sorted({other.op for other, _ in slow})
        over = f"{row.ranks} ranks" if group == "world" else f"ranks {ranges(members)}"
        sure = Confidence.HIGH if part < SEVERE else Confidence.MEDIUM
        yield Found(
            title=(
                f"{row.op} of {size(row.size_bytes)} over {over} reaches {row.bus_gbytes_per_second:.1f} GB/s, "
                f"{part:.0%} of the {expect.gbytes_per_second:.0f} GB/s that {expect.fabric.name} should give"
                f"{_by(job)}"
            ),
            evidence=(*lines([r for r, _ in slow], most=3), expect.line),
            confidence=_lower(sure) if expect.guessed else sure,
            consequence=not named.isdisjoint(members),
            ranks=members if group != "world" else (),
            hosts=row.hosts,
            explanation=f"Below what the link allows: {', '.join(kinds)}.\n\n{(__doc__ or '').strip()}",
        )


def _by(job: Job) -> str:
    """How NCCL connected the ranks, where its log tells: the usual reason."""
    used = sorted({edge.transport for edge in job.events(Edge)})
    return f"; NCCL connects them by {' and '.join(used)}" if used and "P2P" not in used else ""


def _slow_pairs(job: Job, rows: Iterable[BandwidthRow]) -> Iterable[Found]:
    """Pairs far slower than their like; named by the one rank that all of them share, where there is one."""
    on_gpu = {rank.rank for rank in job.events(ProbeRank) if rank.bus_id}
    pairs = [r for r in rows if r.group == "pair" and r.op == "SendRecv" and on_gpu >= {*r.members}]
    for across in (False, True):
        alike = [r for r in pairs if (len(r.hosts) > 1) is across]
        if len(alike) < 3:
            continue
        usual = median(r.bus_gbytes_per_second for r in alike)
        slow = [r for r in alike if r.bus_gbytes_per_second < OUTLIER * usual]
        if not slow or len(slow) * 2 > len(alike):
            continue
        common = set.intersection(*({*r.members} for r in slow))
        worst = min(slow, key=lambda r: r.bus_gbytes_per_second)
        fine = [r for r in alike if r not in slow]
        blamed = [r for r in sorted(common) if not any(r in other.members for other in fine)]
        ranks = (
            tuple(blamed)
            if len(blamed) == 1
            else tuple(sorted({m for r in slow for m in r.members}))
        )
        hosts = tuple(sorted({h for r in ranks if (h := job.host_of_rank(r))}))
        what = "with every partner" if len(blamed) == 1 else "with each other"
        yield Found(
            title=(
                f"{who_ranks(ranks, hosts)} {'is' if len(ranks) == 1 else 'are'} slow {what}: "
                f"{worst.bus_gbytes_per_second:.1f} GB/s between ranks {worst.members[0]} and {worst.members[1]}, "
                f"other pairs reach {usual:.1f}"
            ),
            evidence=lines([*slow[:3], *fine[:1]]),
            ranks=ranks,
            hosts=hosts,
        )


def _slow_devices(job: Job, rows: Iterable[BandwidthRow]) -> Iterable[Found]:
    """A GPU that copies within its own memory far slower than its like: throttled, or ill."""
    device_of = {rank.rank: rank.device for rank in job.events(ProbeRank) if rank.bus_id}
    for row in rows:
        if row.op != "Copy" or row.size_bytes < COPY_BYTES or not row.rank_us:
            continue
        for device in sorted(set(device_of.values())):
            alike = {r: t for r, t in row.rank_us.items() if device_of.get(r) == device}
            slow = {r: t for r, t in alike.items() if t * OUTLIER > min(alike.values())}
            if not slow or len(slow) * 2 > len(alike):
                continue
            usual = median(t for r, t in alike.items() if r not in slow)
            ranks = tuple(sorted(slow))
            hosts = job.hosts_of_ranks(ranks)
            yield Found(
                title=(
                    f"{who_ranks(ranks, hosts)}: the GPU copies its own memory at "
                    f"{row.size_bytes / max(slow.values()) / 1e3:.0f} GB/s, its like at {row.size_bytes / usual / 1e3:.0f}"
                ),
                evidence=(row.line,),
                ranks=ranks,
                hosts=hosts,
                remedy=(
                    "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE  # what holds it down",
                    *remedy,
                ),
            )


def _late(job: Job, rows: Iterable[BandwidthRow]) -> Iterable[Found]:
    """A rank that starts nearly every collective after the others: its own time is short, the others wait for it."""
    meeting = [r for r in rows if r.group == "world" and r.op in _MEETING and len(r.rank_us) > 1]
    late: dict[int, list[tuple[float, BandwidthRow]]] = {}
    for row in meeting:
        first, others = _shortest(row.rank_us)
        if others - row.rank_us[first] > max(LATE_US, 0.5 * others):
            late.setdefault(first, []).append((others - row.rank_us[first], row))
    for rank, cases in sorted(late.items()):
        if len(cases) < max(LATE_ROWS, LATE_SHARE * len(meeting)):
            continue
        host = job.host_of_rank(rank)
        typical = median(by for by, _ in cases)
        yield Found(
            title=(
                f"{who_ranks((rank,), (host,) if host else ())} comes {typical / 1e3:.1f} ms after all others to "
                f"{len(cases)} of {len(meeting)} collectives; they wait for it"
            ),
            evidence=lines([row for _, row in cases], most=3),
            ranks=(rank,),
            hosts=(host,) if host else (),
            remedy=(
                "py-spy dump --pid PID  # what this rank does instead",
                "top -H -b -n1 | head -20  # is its CPU taken",
            ),
        )


def _shortest(rank_us: Mapping[int, float]) -> tuple[int, float]:
    """The rank with the shortest own time, and the shortest time of the others."""
    first = min(rank_us, key=lambda rank: (rank_us[rank], rank))
    return first, min(time for rank, time in rank_us.items() if rank != first)


def _why_not(job: Job, rows: Iterable[BandwidthRow]) -> str:
    ranks = job.events(ProbeRank)
    if ranks and not any(rank.bus_id for rank in ranks):
        return "the ranks ran on the CPU: only measured"
    if any(expectation(job, row) for row in rows):
        return "no collective was large enough to tell"
    return (
        "the links between these ranks are not known, or no message was large enough: only measured"
    )


def _lower(confidence: Confidence) -> Confidence:
    return Confidence.MEDIUM if confidence is Confidence.HIGH else Confidence.LOW


_TABLE = """# nccl-tests version 2.19.6 nccl-headers=22803 nccl-library=22803
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 67108864 maxBytes 1073741824 step: 4(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1484 on gpu-node-01 device  0 [0000:00:06] NVIDIA H200
#  Rank  1 Group  0 Pid   1484 on gpu-node-01 device  1 [0000:00:07] NVIDIA H200
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""

fires_on = {
    "nccl-tests 2.19.6, one channel": _TABLE
    + "    67108864      16777216     float     sum      -1  3037.80   22.09   22.09       0  3034.59   22.11   22.11       0\n"
    "  1073741824     268435456     float     sum      -1  48445.4   22.16   22.16       0  48340.2   22.21   22.21       0\n"
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 22.1494 \n",
    "probe, one slow pair": """{"nccldoctor": "snapshot", "schema": 1, "host": "n1", "probe": {"ranks": [
 {"rank": 0, "host": "n1", "pid": 10, "device": "GPU", "bus_id": "0000:01:00.0"}, {"rank": 1, "host": "n1", "pid": 11, "device": "GPU", "bus_id": "0000:02:00.0"},
 {"rank": 2, "host": "n1", "pid": 12, "device": "GPU", "bus_id": "0000:03:00.0"}], "rows": [
 {"op": "SendRecv", "size_bytes": 67108864, "group": "pair", "members": [0, 1], "time_us": 335, "algorithm_gbytes_per_second": 200, "bus_gbytes_per_second": 200},
 {"op": "SendRecv", "size_bytes": 67108864, "group": "pair", "members": [0, 2], "time_us": 335, "algorithm_gbytes_per_second": 200, "bus_gbytes_per_second": 200},
 {"op": "SendRecv", "size_bytes": 67108864, "group": "pair", "members": [1, 2], "time_us": 6710, "algorithm_gbytes_per_second": 10, "bus_gbytes_per_second": 10}]}}
""",
}
_COPY = """{"nccldoctor": "snapshot", "schema": 1, "host": "n1", "probe": {"ranks": [
 {"rank": 0, "host": "n1", "pid": 10, "device": "GPU", "bus_id": "0000:01:00.0"}, {"rank": 1, "host": "n1", "pid": 11, "device": "GPU", "bus_id": "0000:02:00.0"}],
 "rows": [{"op": "Copy", "size_bytes": 268435456, "members": [0, 1], "time_us": 250, "algorithm_gbytes_per_second": 1, "bus_gbytes_per_second": 1, "rank_us": {"0": 125, "1": SLOW}}]}}
"""
fires_on["probe, one slow device"] = _COPY.replace("SLOW", "250")
silent_on = {
    "probe, devices alike": _COPY.replace("SLOW", "131"),
    "nccl-tests 2.19.6, healthy": _TABLE
    + "        1024           256     float     sum      -1    13.71    0.07    0.07       0    13.43    0.08    0.08       0\n"
    "    67108864      16777216     float     sum      -1   251.09  267.27  267.27       0   251.26  267.09  267.09       0\n"
    "  1073741824     268435456     float     sum      -1  3291.45  326.22  326.22       0  3293.39  326.03  326.03       0\n"
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 120.88 \n",
}
