"""What a watched job gets into its environment, and why; nothing that the user set is changed."""

import importlib.util
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

INJECT = Path(__file__).parent / "inject"
SUBSYSTEMS = "INIT,ENV,BOOTSTRAP,NET,GRAPH,TUNING"
RECORDED = "2000"


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable: the value wanted, why, and the user's own value where that stays."""

    name: str
    value: str
    why: str
    kept: str | None = None


def settings(
    folder: Path, environ: Mapping[str, str], *, trace_calls: bool, torch: tuple[int, int] | None
) -> list[Setting]:
    """All variables that make the job tell more, in the order in which they are shown.

    `torch` is the version of the job's PyTorch, None where it is not known: then old and new names are set.
    """
    wanted = [
        ("NCCL_DEBUG", "INFO", "NCCL tells how it sets itself up"),
        (
            "NCCL_DEBUG_SUBSYS",
            SUBSYSTEMS + (",COLL" if trace_calls else ""),
            "environment, network, topology and tuning"
            + (", and every collective" if trace_calls else ""),
        ),
        ("NCCL_DEBUG_FILE", str(folder / "nccl_%h_%p.log"), "one log per process"),
        ("NCCL_DEBUG_TIMESTAMP_LEVELS", "ALL", "every line carries its time (NCCL 2.26 or later)"),
        ("NCCL_DEBUG_TIMESTAMP_FORMAT", "[%F %T.%3f] ", "with milliseconds"),
        ("NCCL_TOPO_DUMP_FILE", str(folder / "topology.xml"), "the topology that NCCL found"),
        ("NCCL_GRAPH_DUMP_FILE", str(folder / "graph.xml"), "the rings and trees that NCCL chose"),
        ("NCCL_RAS_ENABLE", "1", "NCCL can be asked from outside during a hang (2.24 or later)"),
        ("NCCL_RAS_ADDR", f"localhost:{_free_port()}", "a port of this job alone"),
        *_recorder(folder, environ, torch),
        ("PYTHONFAULTHANDLER", "1", "a crash in native code prints the Python stack"),
    ]
    return [Setting(name, value, why, environ.get(name)) for name, value, why in wanted]


def _recorder(
    folder: Path, environ: Mapping[str, str], torch: tuple[int, int] | None
) -> list[tuple[str, str, str]]:
    """PyTorch's flight recorder, under the names that this version reads; old names warn since 2.8."""
    pairs = (
        ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE", RECORDED, "the last calls"),
        (
            "TORCH_FR_DUMP_TEMP_FILE",
            "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
            str(folder / "fr_rank_"),
            "where the dump goes",
        ),
    )
    wanted = []
    for new, old, value, why in pairs:
        if new in environ or old in environ:  # one of them is the user's own: leave both alone
            name = new if new in environ else old
            wanted.append((name, value, why))
            continue
        if torch is None or torch >= (2, 8):
            wanted.append((new, value, f"flight recorder: {why}"))
        if torch is None or torch < (2, 8):
            wanted.append((old, value, f"flight recorder: {why}"))
    return [
        *wanted,
        ("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", "flight recorder: dump when a collective times out"),
        (
            "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
            str(folder / "fr_pipe_"),
            "flight recorder: dump on request, also where Python is stuck",
        ),
    ]


def instrument(
    environ: Mapping[str, str],
    wanted: Sequence[Setting],
    *,
    folder: Path,
    run: str,
    address: str,
    every: float = 1.0,
) -> dict[str, str]:
    """The job's environment: the user's, what is wanted and not set, and what the injected file needs.

    `run` marks every process of the job, `address` is the abstract socket on which ranks report.
    """
    result = dict(environ)
    for setting in wanted:
        if setting.kept is None:
            result[setting.name] = setting.value
            if setting.name == "NCCL_DEBUG_FILE":
                result["NCCLDOCTOR_LOG"] = setting.value
            if setting.name == "NCCL_DEBUG_SUBSYS":
                result["NCCLDOCTOR_SUBSYS"] = setting.value
    path = [str(INJECT), *filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))]
    result["PYTHONPATH"] = os.pathsep.join(path)
    result["NCCLDOCTOR_RUN"] = run
    result["NCCLDOCTOR_SOCKET"] = address
    result["NCCLDOCTOR_FOLDER"] = str(folder)
    result["NCCLDOCTOR_EVERY"] = str(every)
    result.pop("NCCLDOCTOR_CLAIM", None)
    return result


def torch_version() -> tuple[int, int] | None:
    """The version of the PyTorch beside this Python, read from its files and not imported; None if there is none."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text()
    except OSError:
        return None
    match = re.search(r"__version__\s*=\s*['\"](\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
