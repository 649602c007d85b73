"""A test that checks its values got wrong ones: data was changed on the way.

nccldoctor probe fills buffers with exact patterns and looks at every element; nccl-tests counts `#wrong`. A wrong value
is a fault of memory, of a link, or of the library, never noise. Wrong alone on one GPU: that GPU. Wrong only between
two: their link, or P2P under an IOMMU or ACS that rewrites addresses. `N/A` in nccl-tests means not checked.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines, ranges, some, who_ranks
from nccldoctor.model.events.measured import BandwidthRow
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "COLL06"
name = "data-mismatch-in-test"
severity = Severity.ERROR
needs = (Evidence.BANDWIDTH,)
explains = ("PERF01",)
look_first = True
confirm = (
    "nccldoctor probe --levers  # which layer corrupts: wrong as it is, right with P2P off → P2P",
    "nvidia-smi -q -d ECC,ROW_REMAPPER; dmesg -T | grep -iE 'xid|iommu|DMAR'  # on the hosts of the named pair",
)
remedy = (
    "scontrol update nodename=HOST state=drain reason=wrong-data  # no result of this pair can be trusted, so first take it out; costs the host",
    "for b in $(lspci -d '*:*:0604' | cut -d' ' -f1); do sudo setpci -s $b ECAP_ACS+0x6.w=0000; done  # ACS off until the next boot, where only P2P is wrong; costs isolation between virtual machines",
    "sudo nvidia-smi --gpu-reset -i INDEX; dcgmi diag -r 3 -i INDEX  # where one GPU is wrong alone; costs 15 minutes, and what runs on it",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a source: who received wrong values, and whether alone, in one pair, or only together."""
    rows = [r for r in job.events(BandwidthRow) if r.group != "lever"]
    for file in sorted({row.line.file for row in rows if row.wrong}):
        mine = [row for row in rows if row.line.file == file]
        bad = [row for row in mine if row.wrong]
        ops = some(sorted({row.op for row in bad}))
        ranks = _blamed(bad)
        hosts = tuple(sorted({h for rank in ranks if (h := job.host_of_rank(rank))}))
        elements = sum(row.wrong or 0 for row in bad)
        subject = f"{who_ranks(ranks, hosts)} received" if ranks else "Somebody received"
        yield Found(
            title=(
                f"{subject} {elements} wrong value{'s' * (elements != 1)} in {len(bad)} of {len(mine)} tests "
                f"({ops}){_where(bad, mine)}"
            ),
            evidence=lines(bad),
            ranks=ranks,
            hosts=hosts,
        )


def _blamed(bad: Iterable[BandwidthRow]) -> tuple[int, ...]:
    """The ranks that received wrong values; those that failed alone, if any did."""
    rows = list(bad)
    alone = {rank for row in rows if row.group == "single" for rank in row.members}
    return tuple(sorted(alone or {rank for row in rows for rank in row.wrong_by_rank}))


def _where(bad: list[BandwidthRow], all_rows: list[BandwidthRow]) -> str:
    """What the isolation told, as the end of the sentence."""
    alone = sorted({rank for row in bad if row.group == "single" for rank in row.members})
    if alone:
        return f": already alone, so it is the GPU of rank {ranges(alone)}"
    pairs = sorted({row.members for row in bad if row.group == "pair"})
    if pairs:
        return (
            f": alone all is right, wrong between ranks {some([f'{a} and {b}' for a, b in pairs])}"
        )
    if any(row.group == "single" for row in all_rows):
        return ": alone and in pairs all is right"
    return ""


_TABLE = """# nccl-tests version 2.19.6 nccl-headers=22803 nccl-library=22803
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 1024 maxBytes 1048576 step: 4(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1327 on gpu-node-01 device  0 [0000:00:06] NVIDIA H200
#  Rank  1 Group  0 Pid   1327 on gpu-node-01 device  1 [0000:00:07] NVIDIA H200
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""

fires_on = {
    "nccl-tests 2.19.6": _TABLE
    + "        1024           256     float     sum      -1    13.71    0.07    0.07       0    13.43    0.08    0.08      12\n"
    "# Out of bounds values : 12 FAILED\n# Avg bus bandwidth    : 0.07 \n",
}
silent_on = {
    "nccl-tests 2.19.6": _TABLE
    + "        1024           256     float     sum      -1    13.71    0.07    0.07       0    13.43    0.08    0.08     N/A\n"
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.07 \n",
}
