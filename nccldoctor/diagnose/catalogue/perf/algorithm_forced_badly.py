"""NCCL_ALGO or NCCL_PROTO forces what does not fit the sizes that the job uses.

LL moves half of each word as a flag, which is right for small messages and halves the bandwidth of large ones; Simple
has the best bandwidth and the worst latency; trees are for many hosts and small to middle sizes. Without the
variables NCCL chooses by size.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.settings import named
from nccldoctor.diagnose.words import lines, size
from nccldoctor.model.events.nccl import AlgorithmChosen
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "PERF04"
name = "algorithm-forced-badly"
severity = Severity.WARNING
needs = (Evidence.TUNING,)
explains = ("PERF01",)
confirm = ("nccldoctor probe  # with and without the variable, at the sizes that the job uses",)
remedy = (
    "unset NCCL_ALGO NCCL_PROTO  # NCCL chooses by size; costs nothing unless the probe says otherwise",
)
LARGE_BYTES = 4 << 20
SMALL_BYTES = 16 << 10
_PROTOCOLS = {"0": "LL", "1": "LL128", "2": "SIMPLE"}


def check(job: Job) -> Iterable[Found]:
    """One finding a protocol that is forced on the wrong sizes."""
    forced = [
        s
        for s in named(job, "NCCL_PROTO")
        if "," not in s.value and not s.value.startswith("^") and ";" not in s.value
    ]
    chosen = job.events(AlgorithmChosen)
    for setting in forced[:1]:
        protocol = setting.value.rpartition(":")[2].upper()
        used = [e for e in chosen if _PROTOCOLS.get(e.protocol, e.protocol.upper()) == protocol]
        if protocol == "LL":
            wrong = [e for e in used if e.size_bytes >= LARGE_BYTES]
            why = "which LL moves at half the bandwidth or less"
        elif protocol == "SIMPLE":
            wrong = [e for e in used if e.size_bytes <= SMALL_BYTES]
            wrong = wrong if 2 * len(wrong) > len(used) else []
            why = "for which LL has a fraction of the latency"
        else:
            continue
        if wrong:
            worst = max(e.size_bytes for e in wrong)
            yield Found(
                title=f"NCCL_PROTO={setting.value} is forced on {len(wrong)} collectives of up to {size(worst)}, {why}",
                evidence=lines([setting.event, *wrong], 3),
                ranks=job.ranks_of(s.event for s in named(job, "NCCL_PROTO")),
                confidence=Confidence.MEDIUM,
                remedy=(
                    "unset NCCL_PROTO  # NCCL chooses by size; costs nothing unless nccldoctor probe says otherwise",
                ),
            )


_H = "gpu-1:71:71 [0] NCCL INFO "
fires_on = {
    "2.24+": _H
    + "NCCL_PROTO set by environment to LL\n"
    + _H
    + "AllReduce: 268435456 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..23}\n",
    "2.23": _H
    + "NCCL_PROTO set by environment to Simple\n"
    + (_H + "AllReduce: 1024 Bytes -> Algo 1 proto 2 time 12.3\n") * 3,
}
silent_on = {
    "large ones with Simple": _H
    + "NCCL_PROTO set by environment to Simple\n"
    + _H
    + "AllReduce: 268435456 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}\n",
    "not forced": _H + "AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}\n",
}
