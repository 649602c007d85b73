"""One change of NCCL's settings at a time: what still works with it, and what it costs."""

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nccldoctor.collect.probe.launch import Outcome
from nccldoctor.collect.probe.session import Session, start
from nccldoctor.errors import DoctorError


@dataclass(frozen=True, slots=True)
class Lever:
    """A setting to try. `layer` is what is at fault when the plain run fails and this one passes."""

    name: str
    environment: Mapping[str, str]
    layer: str = ""
    hosts: bool = False  # only tells something between hosts


LEVERS = (
    Lever("as it is", {}),
    Lever("P2P off", {"NCCL_P2P_DISABLE": "1"}, "GPU peer-to-peer (NVLink, PCIe, IOMMU or ACS)"),
    Lever("SHM off", {"NCCL_SHM_DISABLE": "1"}, "shared memory (/dev/shm)"),
    Lever(
        "P2P and SHM off",
        {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"},
        "everything inside the host",
    ),
    Lever(
        "sockets only",
        {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1"},
        "everything but sockets",
    ),
    Lever("IB off", {"NCCL_IB_DISABLE": "1"}, "InfiniBand or RoCE", hosts=True),
    Lever("GPUDirect RDMA off", {"NCCL_NET_GDR_LEVEL": "LOC"}, "GPUDirect RDMA", hosts=True),
    Lever("NVLS off", {"NCCL_NVLS_ENABLE": "0"}, "NVLink SHARP (NVSwitch multicast)"),
    Lever("cuMem off", {"NCCL_CUMEM_ENABLE": "0"}, "cuMem allocation and its file descriptors"),
    Lever("ring only", {"NCCL_ALGO": "Ring"}, "the tree and NVLS algorithms"),
    Lever("tree only", {"NCCL_ALGO": "Tree"}, "the ring algorithm"),
    Lever("Simple only", {"NCCL_PROTO": "Simple"}, "the LL and LL128 protocols"),
    Lever("LL only", {"NCCL_PROTO": "LL"}, "the Simple and LL128 protocols"),
    Lever("LL128 only", {"NCCL_PROTO": "LL128"}, "the Simple and LL protocols"),
    Lever("one channel", {"NCCL_MAX_NCHANNELS": "1"}, "many channels at once"),
    Lever("1 MiB buffers", {"NCCL_BUFFSIZE": "1048576"}, "buffer memory"),
    Lever("16 MiB buffers", {"NCCL_BUFFSIZE": "16777216"}),
    Lever(
        "one channel, 16 MiB buffers",
        {"NCCL_MAX_NCHANNELS": "1", "NCCL_BUFFSIZE": "16777216"},
        "many channels at once",
    ),
)


def already(lever: Lever, environment: Mapping[str, str]) -> bool:
    """Is this lever pulled in the environment as it is? Then there is nothing to compare."""
    return bool(lever.environment) and all(
        environment.get(name) == value for name, value in lever.environment.items()
    )


def try_levers(session: Session) -> list[dict[str, Any]]:
    """Every lever that can tell something here: passed or how it failed, and its rows."""
    several = session.launched_by != "nccldoctor"
    if several:
        raise DoctorError(
            "Levers need fresh ranks for each: run `nccldoctor probe --levers` on one host"
        )
    if session.device == "cpu":
        session.say(
            "Gloo takes no notice of NCCL's settings: on the CPU this shows the procedure only"
        )
    results = []
    for number, lever in enumerate(LEVERS):
        if lever.hosts:
            continue
        if already(lever, session.environment):
            results.append(_lever_result(lever, "already so", Outcome()))
            continue
        aside = log_aside(session, lever) if lever.environment else {}
        outcome = start(
            session,
            "lever",
            f"lever{number}",
            places=session.places,
            extra={**lever.environment, **aside},
        )
        wrong = sum(row["wrong"] for row in outcome.rows)
        state = outcome.failure.kind if outcome.failure else "wrong" if wrong else "ok"
        if state == "ok" and aside:
            shutil.rmtree(aside_folder(session, lever), ignore_errors=True)
        results.append(_lever_result(lever, state, outcome))
        best = max((row["bus_gbytes_per_second"] for row in outcome.rows), default=0.0)
        session.say(f"{lever.name}: {state}, {best:.1f} GB/s")
    with contextlib.suppress(OSError):  # absent, or with the logs of levers that failed
        aside_folder(session).rmdir()
    return results


def aside_folder(session: Session, lever: Lever | None = None) -> Path:
    """Beside the run folder: a folder for all levers, with one for each that failed."""
    run = session.wish.folder
    name = lever.name.replace(" ", "-").replace(",", "") if lever else ""
    return run.with_name(f"{run.name}-levers") / name


def log_aside(session: Session, lever: Lever) -> dict[str, str]:
    """NCCL's log of a lever that is pulled goes beside the run folder: settings tried on purpose are no findings."""
    run, folder = str(session.wish.folder), aside_folder(session, lever)
    ours = {
        name: str(folder / Path(value).name)
        for name in ("NCCL_DEBUG_FILE", "NCCL_TOPO_DUMP_FILE")
        if (value := session.environment.get(name, "")).startswith(run)
    }
    if ours:
        folder.mkdir(parents=True, exist_ok=True)
    return ours


def _lever_result(lever: Lever, state: str, outcome: Outcome) -> dict[str, Any]:
    return {
        "name": lever.name,
        "environment": dict(lever.environment),
        "layer": lever.layer,
        "state": state,
        "seconds": round(outcome.seconds, 2),
        "text": outcome.failure.text if outcome.failure else "",
        "ranks": outcome.ranks,
        "rows": outcome.rows,
    }
