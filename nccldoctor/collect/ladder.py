"""The fallback ladder: the same job again with one lever at a time, until one lets it through and names the layer."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Lever:
    """What is set, which layer it takes out of play, and what it costs while it stays.

    Prices are measured on 2 × H200 (all_reduce of 1 GiB, bus bandwidth, 326 GB/s without any lever) where they have
    numbers.
    """

    name: str
    variables: Mapping[str, str]
    layer: str
    cost: str


LEVERS = (
    Lever(
        "one-channel",
        {"NCCL_MAX_NCHANNELS": "1", "NCCL_BUFFSIZE": "16777216"},
        "concurrency between channels, or a buffer too small for its link",
        "22 instead of 326 GB/s",
    ),
    Lever(
        "no-p2p",
        {"NCCL_P2P_DISABLE": "1"},
        "direct access between GPUs: NVLink, PCIe peer to peer, IOMMU/ACS",
        "28 instead of 326 GB/s",
    ),
    Lever(
        "no-shm",
        {"NCCL_SHM_DISABLE": "1"},
        "shared memory between processes: /dev/shm and its limits",
        "traffic inside the host goes over the network stack where P2P is not used",
    ),
    Lever(
        "no-ib",
        {"NCCL_IB_DISABLE": "1"},
        "InfiniBand or RoCE: verbs, GPUDirect, switch configuration",
        "TCP between hosts: a tenth of the speed or less",
    ),
    Lever(
        "no-nvls",
        {"NCCL_NVLS_ENABLE": "0"},
        "NVLink SHARP: multicast of the NVSwitches, fabric manager",
        "large all_reduces on NVSwitch machines are slower",
    ),
    Lever(
        "no-cumem",
        {"NCCL_CUMEM_ENABLE": "0", "NCCL_CUMEM_HOST_ENABLE": "0"},
        "the driver's virtual-memory interface for buffers",
        "more memory, and no NVLS",
    ),
    Lever(
        "ring-simple",
        {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"},
        "an algorithm or a low-latency protocol (LL, LL128, Tree, NVLS)",
        "small messages are several times slower",
    ),
)


@dataclass(frozen=True, slots=True)
class Rung:
    """One try: `exit_code` of the job under this lever; 0 means that it went through."""

    lever: Lever
    exit_code: int


def climb(
    environ: Mapping[str, str],
    run: Callable[[Lever, dict[str, str]], int],
    levers: Sequence[Lever] = LEVERS,
) -> list[Rung]:
    """Tries levers in order, one at a time, and stops at the first that lets the job through.

    A lever whose variables the user has set is not tried: it would change the user's own choice. A job that is
    stopped by a signal (130, 143) ends the ladder.
    """
    rungs = []
    for lever in levers:
        if any(name in environ for name in lever.variables):
            continue
        code = run(lever, {**environ, **lever.variables})
        rungs.append(Rung(lever, code))
        if code in (0, 129, 130, 143):
            break
    return rungs


def tell(rungs: Sequence[Rung]) -> list[str]:
    """What the ladder has shown, in sentences."""
    tried = [f"{rung.lever.name}: exit code {rung.exit_code}" for rung in rungs]
    if not rungs:
        return ["no lever was left to try: the variables of all of them are set already"]
    last = rungs[-1]
    if last.exit_code != 0:
        return [*tried, "no lever lets the job through: the fault lies elsewhere"]
    assignments = " ".join(f"{k}={v}" for k, v in sorted(last.lever.variables.items()))
    return [
        *tried,
        f"the job goes through with {assignments}: at fault is {last.lever.layer}",
        f"it costs: {last.lever.cost}; it must not stay: use it to get through the night, and take it out once the "
        "fault is mended",
    ]


def note(rungs: Sequence[Rung]) -> list[dict[str, Any]]:
    """What the bundle keeps of the ladder."""
    return [
        {
            "lever": rung.lever.name,
            "variables": dict(rung.lever.variables),
            "exit_code": rung.exit_code,
            "layer": rung.lever.layer,
            "cost": rung.lever.cost,
        }
        for rung in rungs
    ]


def probe(
    folder: Path, environ: Mapping[str, str], *, processes: int | None, levers: bool = True
) -> int:
    """Runs `nccldoctor probe` into `folder`: the same layers, without the job; its exit code.

    `processes` None leaves their number to the probe; without `levers` every collective is tried as it is.
    """
    words = [sys.executable, "-m", "nccldoctor", "probe", "--quick", "--run-dir", str(folder)]
    words += ["--levers"] if levers else []
    words += ["--nproc", str(processes)] if processes is not None else []
    return subprocess.run(words, env=dict(environ), check=False).returncode
