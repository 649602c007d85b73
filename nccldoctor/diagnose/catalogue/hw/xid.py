"""The driver reported an error of a GPU (Xid) or of an NVSwitch (SXid) in the kernel log.

The number says what broke and, mostly, who is to blame: 13, 31, 43 and 45 come from programs that read out of bounds or
were killed, and are no fault of the hardware by themselves; 48, 63, 64, 79, 94 and 95 are. A kernel log reaches far back:
an Xid before the job began has nothing to do with it.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.words import lines
from nccldoctor.knowledge.xid import LOST, MEMORY, NVLINK, SXIDS, Blame, xid
from nccldoctor.model.events.nccl import CommStart
from nccldoctor.model.events.state import Xid
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "HW01"
name = "xid"
severity = Severity.ERROR
needs = (Evidence.KERNEL,)
explains = (
    "HW02",
    "HW03",
    "HW05",
    "CRASH01",
    "CRASH02",
    "NET10",
    "HANG01",
    "HANG02",
    "HANG04",
    "INIT06",
)
remedy = (
    "nvidia-smi -q -d ECC,ROW_REMAPPER,PERFORMANCE -i GPU  # the state of that GPU",
    "dcgmi diag -r 3 -i GPU  # before it works again",
)
CLEANED_UP = 45
LONG_BEFORE = timedelta(hours=1)
"""Clocks and zones may differ by less."""


def check(job: Job) -> Iterable[Found]:
    """One finding a GPU and number."""
    groups: dict[tuple[bool, int, str], list[Xid]] = {}
    for event in job.events(Xid):
        groups.setdefault((event.switch, event.number, event.bus_id), []).append(event)
    for (switch, number, bus), events in sorted(groups.items()):
        yield _switch(job, number, bus, events) if switch else _gpu(job, number, bus, events)


def _gpu(job: Job, number: int, bus: str, events: Sequence[Xid]) -> Found:
    known = xid(number)
    ranks = _ranks(job, bus)
    who = f"Rank {ranks[0]}'s GPU " if len(ranks) == 1 else "GPU "
    blame = " (mostly the program's fault)" if known.blame is Blame.APPLICATION else ""
    if number == CLEANED_UP or _before(job, events):
        level = Severity.NOTE
    elif known.blame is Blame.APPLICATION or not known.fatal:
        level = Severity.WARNING
    else:
        level = Severity.ERROR
    return Found(
        title=f"{who}{bus}: Xid {number}, {known.meaning}{blame}",
        evidence=lines(events),
        ranks=ranks,
        hosts=job.hosts_of_ranks(ranks) or job.hosts_of(events),
        confidence=Confidence.HIGH if ranks else Confidence.MEDIUM,
        severity=level,
        remedy=(known.remedy.replace("-i GPU", f"-i {bus}"), *remedy[:1])
        if number in NVLINK | MEMORY | {LOST}
        else (known.remedy, *remedy),
    )


def _before(job: Job, events: Sequence[Xid]) -> bool:
    """All of them are told of as long before the job's first stamp."""
    others = [e.speaker.time for e in job.all_events() if e.speaker.time and not isinstance(e, Xid)]
    times = [e.speaker.time for e in events if e.speaker.time]
    if len(times) < len(events) or not others:
        return False
    return max(times) < min(others) - LONG_BEFORE


def _switch(job: Job, number: int, bus: str, events: Sequence[Xid]) -> Found:
    fatal = any(e.text.lower().startswith("fatal") for e in events)
    meaning = SXIDS.get(number, "an error that this table does not list")
    return Found(
        title=f"NVSwitch {bus}: SXid {number}, {meaning}",
        evidence=lines(events),
        hosts=job.hosts_of(events),
        confidence=Confidence.HIGH if number in SXIDS else Confidence.MEDIUM,
        severity=Severity.ERROR if fatal else Severity.NOTE,
        remedy=(
            "reset all GPUs of the host and restart nvidia-fabricmanager; when it comes back, replace the part",
            "nvidia-smi nvlink -e  # which links count errors",
        ),
    )


def _ranks(job: Job, bus: str) -> tuple[int, ...]:
    """Ranks on this GPU, by the bus id of NCCL's own lines (`c1000` is 0000:c1:00.0)."""
    parts = bus.lower().split(":")
    if len(parts) < 2:
        return ()
    domain, number = (parts[-3] if len(parts) > 2 else "0"), parts[-2]
    device = parts[-1].partition(".")[0]
    try:
        wanted = int(domain, 16) << 20 | int(number, 16) << 12 | int(device, 16) << 4
    except ValueError:
        return ()
    found = [e for e in job.events(CommStart) if e.bus_id and int(e.bus_id, 16) == wanted]
    return job.ranks_of(found) if len(job.hosts_of(found)) <= 1 else ()


_START = "gpu-1:71:71 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId c1000 commId 0xaa - Init START\n"
fires_on = {
    "79": _START
    + "[ 3012.114] NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
    "94": "Nov 30 04:12:09 node-7 kernel: NVRM: Xid (PCI:0000:1b:00): 94, pid=4711, name=python, Contained: SM (0x1). RST: No, D-RST: No\n",
    "31, the program's": "[ 41.7] NVRM: Xid (PCI:0000:1b:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f_a0000000\n",
    "SXid": "nvidia-nvswitch0: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 32 LTSSM Fault Up\n",
}
silent_on = {
    "the driver loads": "[    8.1] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.159.04\n",
}
