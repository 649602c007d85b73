"""The driver reported an error of a GPU (Xid) or of an NVSwitch (SXid) in the kernel log.

The number says what broke and, mostly, who is to blame: 13, 31, 43, 69 and 137 come from programs that read out of
bounds, and are no fault of the hardware by themselves; 48, 64, 79, 94, 95, 140 and 167 are. 45 only says that a
program's channels were cleaned up: after it was killed, or after another Xid. 154 tells what the driver wants done about
the Xid before it. 144 to 150 are NVLink 5 on Blackwell, 74 and 136 NVLink before it; `Nonfatal` ones need nothing.
Not a fault of this job: an Xid from long before it began (a kernel log reaches far back).
"""

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.words import lines
from nccldoctor.knowledge.xid import (
    CLEANED_UP,
    NVLINK5,
    RECOVERIES,
    RECOVERY,
    SXIDS,
    Act,
    Blame,
    recovery,
    sxid,
    xid,
)
from nccldoctor.model.events.machine import Xid
from nccldoctor.model.events.nccl import CommStart
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
confirm = (
    "nvidia-smi -q -d ECC,ROW_REMAPPER,PERFORMANCE -i GPU  # the state of that GPU, and its counters",
)
remedy = (
    "dcgmi diag -r 3 -i INDEX  # before it works again; costs 15 minutes on an idle GPU; a failed test is the proof for a replacement",
)
QUIET = frozenset({RECOVERY, CLEANED_UP})
_PREVIOUS = re.compile(r"caused by previous Xid (\d{1,6})\b")
LONG_BEFORE = timedelta(hours=1)
"""Clocks and zones may differ by less."""


def check(job: Job) -> Iterable[Found]:
    """One finding a GPU and number; what Xid 154 asks for goes into the remedies of that GPU's others."""
    groups = apart(job.events(Xid), lambda event: (event.switch, _number(event), event.bus_id))
    asked = {bus: events[-1] for (_, number, bus), events in groups.items() if number == RECOVERY}
    others = {bus for switch, number, bus in groups if not switch and number not in QUIET}
    for (switch, number, bus), events in groups.items():
        if switch:
            yield _switch(job, number, bus, events)
        elif number != RECOVERY:
            yield _gpu(job, number, bus, events, asked.get(bus))
        elif bus not in others:
            yield _recovery(job, bus, events)


def _number(event: Xid) -> int:
    """Its number, or where it only cleans up, the one that it says it follows from."""
    told = _PREVIOUS.search(event.text) if event.number == CLEANED_UP else None
    return int(told[1]) if told else event.number


def _gpu(job: Job, number: int, bus: str, events: Sequence[Xid], asked: Xid | None) -> Found:
    known = xid(number)
    ranks = _ranks(job, bus)
    blame = " (mostly the program's fault)" if known.blame is Blame.APPLICATION else ""
    harmless = number in NVLINK5 and all("nonfatal" in e.text.lower() for e in events)
    if number == CLEANED_UP or harmless or _before(job, events):
        level = Severity.NOTE
    elif known.blame is Blame.APPLICATION or not known.fatal:
        level = Severity.WARNING
    else:
        level = Severity.ERROR
    wanted = recovery(asked.text) if asked else None
    act = RECOVERIES.get(wanted or "") or known.act
    says = f"; the driver asks for: {wanted}" if wanted and wanted != "None" else ""
    return Found(
        title=f"{_whose(ranks)} {bus}: Xid {number}, {known.meaning}{blame}{says}",
        evidence=lines([*events[:3], *([asked] if asked else [])]),
        ranks=ranks,
        hosts=job.hosts_of_ranks(ranks) or job.hosts_of(events),
        confidence=Confidence.HIGH if ranks else Confidence.MEDIUM,
        severity=level,
        remedy=_remedy(act, bus, check=known.blame is not Blame.APPLICATION),
    )


def _recovery(job: Job, bus: str, events: Sequence[Xid]) -> Found:
    """Xid 154 without the one that it belongs to: the log was cut."""
    wanted = recovery(events[-1].text) or "unknown"
    act = RECOVERIES.get(wanted)
    ranks = _ranks(job, bus)
    level = {None: Severity.NOTE, Act.LATER: Severity.WARNING}.get(act, Severity.ERROR)
    return Found(
        title=f"{_whose(ranks)} {bus}: the driver asks for: {wanted} (Xid {RECOVERY})",
        evidence=lines(events),
        ranks=ranks,
        hosts=job.hosts_of_ranks(ranks) or job.hosts_of(events),
        confidence=Confidence.HIGH if ranks else Confidence.MEDIUM,
        severity=Severity.NOTE if _before(job, events) else level,
        remedy=_remedy(act or Act.OTHER, bus),
    )


def _whose(ranks: Sequence[int]) -> str:
    return f"Rank {ranks[0]}'s GPU" if len(ranks) == 1 else "GPU"


def _remedy(act: Act, bus: str, check: bool = True) -> tuple[str, ...]:
    """What to do with this GPU, by its whole address, as nvidia-smi takes it."""
    address = bus if "." in bus else f"{bus}.0"
    texts = (act.value, *((*remedy, *confirm) if check else ()))
    return tuple(text.replace("-i GPU", f"-i {address}") for text in texts)


def _before(job: Job, events: Sequence[Xid]) -> bool:
    """All of them are told of as long before the job's first stamp."""
    others = [e.speaker.time for e in job.all_events() if e.speaker.time and not isinstance(e, Xid)]
    times = [e.speaker.time for e in events if e.speaker.time]
    if len(times) < len(events) or not others:
        return False
    return max(times) < min(others) - LONG_BEFORE


def _switch(job: Job, number: int, bus: str, events: Sequence[Xid]) -> Found:
    fatal = any(e.text.lower().startswith("fatal") for e in events)
    meaning = sxid(number) or "an error that this table does not list"
    return Found(
        title=f"NVSwitch {bus}: SXid {number}, {meaning}",
        evidence=lines(events),
        hosts=job.hosts_of(events),
        confidence=Confidence.HIGH if number in SXIDS else Confidence.MEDIUM,
        severity=Severity.ERROR if fatal else Severity.NOTE,
        remedy=_SWITCH if fatal else _SWITCH[:1],
    )


_SWITCH = (
    "nvidia-smi nvlink -e; grep -iE 'error|fail' /var/log/fabricmanager.log | tail -20  # which links count errors; what the fabric manager did",
    Act.LINK.value,
    "scontrol update nodename=HOST state=drain reason=nvswitch  # when the same switch and link come back after the reset: board or cable is to be replaced; costs the host until then",
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
    "149, Blackwell, driver 575+": "[171167.620236] NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)\n",
    "45 that names the one before it": "kernel: NVRM: Xid (PCI:0000:c1:00): 45, pid=4711, name=python3, Ch 00000001 caused by previous Xid 149\n",
    "154 after 79": "[ 3012.1] NVRM: Xid (PCI:0000:c1:00): 79, GPU has fallen off the bus.\n[ 3012.2] NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)\n",
    "154 alone": "[ 3012.2] NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)\n",
}
silent_on = {
    "145, nonfatal": "[ 3012.1] NVRM: Xid (PCI:0000:c1:00): 145, RLW_RXPIPE  Nonfatal   XC0 i0 Link 03 (0x00000086 0x00000008 0x00000000 0x00000000 0x00000000 0x00000000)\n",
    "154, nothing needed": "[ 3012.2] NVRM: Xid (PCI:0000:c1:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)\n",
    "45, a job was stopped": "[ 3012.1] NVRM: Xid (PCI:0000:c1:00): 45, pid=4711, name=python, Ch 00000010\n",
    "the driver loads": "[    8.1] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.159.04\n",
}
