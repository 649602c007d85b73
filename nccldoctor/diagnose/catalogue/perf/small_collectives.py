"""Most collectives are tiny, so their time is latency and not bandwidth.

An all_reduce for each parameter, metrics that are reduced one by one, or `.item()` on reduced values do this. Each call
costs tens of microseconds however small it is. Barriers and a few scalars a step are normal.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import size
from nccldoctor.model.calls import Call
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job, Lane

code = "PERF03"
name = "small-collectives"
severity = Severity.NOTE
needs = (Evidence.CALLS, Evidence.RECORDER)
explains = ()
look_first = True
confirm = (
    "nccldoctor run --trace-calls train.py  # the histogram of sizes, and the lines that make the small calls",
)
remedy = (
    "DistributedDataParallel(model, bucket_cap_mb=100)  # larger buckets; costs overlap at the end of backward",
    "flat = torch.cat([p.grad.flatten() for p in params]); dist.all_reduce(flat)  # one call for many small tensors; costs a copy",
    "metrics = torch.stack([loss, accuracy]); dist.all_reduce(metrics)  # every N steps instead of each on its own; costs fresh numbers",
)
SMALL_BYTES = 32 << 10
LEAST_CALLS = 200
MOST_SHARE = 0.8
_BYTES = {"float64": 8, "int64": 8, "uint64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1}


def check(job: Job) -> Iterable[Found]:
    """One finding, on the lane with most calls; its last calls stand for all."""
    busy = [lane for lane in job.lanes if lane.issued >= LEAST_CALLS and lane.recent and lane.line]
    tiny = [lane for lane in busy if _share(lane) >= MOST_SHARE]
    if not tiny:
        return
    worst = max(tiny, key=lambda lane: (lane.issued, -lane.rank))
    comm = job.communicator(worst.communicator)
    largest = max(_bytes(call) for call in worst.recent)
    assert worst.line is not None
    yield Found(
        title=f"{worst.issued:,} collectives of each rank of {comm.name} are small: the last {len(worst.recent)} "
        f"carry at most {size(largest)}",
        evidence=(worst.line,),
        confidence=Confidence.LOW,
    )


def _share(lane: Lane) -> float:
    small = sum(1 for call in lane.recent if 0 < _bytes(call) <= SMALL_BYTES)
    return small / len(lane.recent)


def _bytes(call: Call) -> int:
    """Bytes of the call, 0 where they are not told."""
    return (call.count or 0) * _BYTES.get(call.datatype or "", 4)


def _calls(count: int, elements: int) -> str:
    text = ""
    for rank in (0, 1):
        head = f"gpu-1:7{rank}:7{rank} [{rank}] NCCL INFO "
        comm = f"ncclCommInitRank comm 0x5{rank} rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId 6{rank} commId 0xaa - Init "
        text += f"{head}{comm}START\n{head}{comm}COMPLETE\n"
        text += "".join(
            f"{head}AllReduce: opCount {n:x} sendbuff 0x7f10 recvbuff 0x7f20 count {elements} datatype 7 op 0 root 0 "
            f"comm 0x5{rank} [nranks=2] stream 0x3\n"
            for n in range(count)
        )
    return text


fires_on = {
    "2.21-2.28": _calls(250, 256),
    "2.18": _calls(300, 1).replace("ncclCommInitRank comm", "comm"),
}
silent_on = {
    "large ones": _calls(250, 1 << 22),
    "few": _calls(20, 256),
}
