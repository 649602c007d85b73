"""NCCL's own diagnostics (2.31 and later) did not confirm peer access, or found hosts that are not alike.

NCCL_RUN_DIAGNOSTICS=1 writes and reads memory between every pair of GPUs at start; NCCL_RUN_RAS_DIAGNOSTICS=1 compares
GPUs, drivers and kernel events of all ranks. A pair that is not verified works through host memory at best. `[INFO]`
alone is no fault: missing tools, unknown NICs and variables that differ on purpose are told with it too, and links, ECC
and variables have diagnoses of their own.
"""

import re
from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import CannotCheck, Found
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.words import lines
from nccldoctor.model.events.nccl import Diagnostic
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "HW07"
name = "self-check-failed"
severity = Severity.WARNING
needs = (Evidence.OUTPUT, Evidence.NCCL_LOG)
explains = ("TOPO01", "PERF01")
confirm = (
    "nvidia-smi topo -p2p rw; nccldoctor probe --levers  # which pairs the driver lets through, and whether P2P works at all",
    "dmesg | grep -i -e iommu -e DMAR; lspci -vvv | grep ACSCtl  # IOMMU and ACS must be off for P2P",
)
remedy = (
    "sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&iommu=pt /' /etc/default/grub && sudo update-grub && sudo reboot  # where the IOMMU is in the way; costs a reboot",
    "scontrol update nodename=HOST state=drain reason=unlike  # where a host's GPUs or driver differ: same driver and image as the others; costs the host until then",
)

_PARTLY = re.compile(r"only (\d{1,6})/(\d{1,6}) ")
_ALIKE = {
    "GPU inventory": "GPUs are not the same everywhere",
    "CUDA driver version": "CUDA drivers differ",
    "NVIDIA graphics driver version": "graphics drivers differ",
}


def check(job: Job) -> Iterable[Found]:
    """One finding a check that was not passed."""
    every = job.events(Diagnostic)
    if not every:
        raise CannotCheck(
            "NCCL's own diagnostics did not run",
            "export NCCL_RUN_DIAGNOSTICS=1 NCCL_RUN_RAS_DIAGNOSTICS=1  # NCCL 2.31 or later",
        )
    return list(_failed(job, [event for event in every if event.verdict != "OK"]))


def _failed(job: Job, events: list[Diagnostic]) -> Iterable[Found]:
    for check_name, mine in apart(events, lambda event: event.check.strip()).items():
        if check_name == "p2p":
            short = [(e, m) for e in mine if (m := _PARTLY.search(e.text)) and m[1] != m[2]]
            for event, match in short[:1]:
                yield Found(
                    title=f"NCCL verified only {match[1]} of {match[2]} peer accesses between GPUs",
                    evidence=(event.line,),
                    hosts=job.hosts_of([event]),
                )
        elif check_name in _ALIKE:
            differ = [event for event in mine if "mismatch" in event.text]
            if differ:
                yield Found(
                    title=f"NCCL's own check: {_ALIKE[check_name]}: {differ[0].text.partition(' in comm')[0]}",
                    evidence=lines(differ),
                    confidence=Confidence.MEDIUM,
                    remedy=(
                        "nvidia-smi --query-gpu=name,driver_version --format=csv  # on each host",
                    ),
                )


fires_on = {
    "2.31 p2p": "NCCL DIAG === NCCL Diagnostics ===\n"
    "NCCL DIAG [INFO] p2p: only 6/8 GPU-to-GPU peer accesses passed verification\n",
    "2.32 drivers": "gpu-node-01:1081 NCCL DIAG [INFO] CUDA driver version: mismatch across 8 ranks in comm 0x1f924f1c54e68bd1, "
    "rank(s) {4,5} differ from rank 0 (13000)\n",
}
silent_on = {
    "2.32 healthy, tools missing": "gpu-node-01:1081 NCCL DIAG [INFO] net bw: required external tool missing in comm 0x1f924f1c54e68bd1\n"
    "gpu-node-01:1081 NCCL DIAG [OK]   p2p: verified P2P access in both directions between every GPU pair (8 peer accesses)\n"
    "gpu-node-01:1081 NCCL DIAG [INFO] NCCL environment: mismatch across 8 ranks in comm 0x1f924f1c54e68bd1 for NCCL_HOSTID\n"
    "gpu-node-01:1081 NCCL DIAG [INFO] rdma_topo check: not usable on 8/8 ranks in comm 0x1f924f1c54e68bd1 (unavailable)\n",
}
