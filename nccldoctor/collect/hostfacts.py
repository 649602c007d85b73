"""What this host says during an incident: shared memory, limits, kernel messages of the GPUs, nvidia-smi."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nccldoctor.collect import procfs

_KEPT = re.compile(
    r"^(NCCL_|RCCL_|TORCH|C10D|GLOO|CUDA|ROCR|HIP|HSA|RANK|LOCAL_|WORLD_|GROUP_|ROLE_|MASTER_|PET_|SLURM_|OMPI_|PMI|UCX_|FI_|OMP_)"
)
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE", re.I)
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)")


def host_name() -> str:
    """This host as NCCL's log lines call it: without its domain."""
    return socket.gethostname().partition(".")[0]


def variables(pid: int) -> dict[str, str]:
    """The part of a process's environment that matters here; nothing that looks like a secret."""
    found = procfs.environment(pid)
    return {k: v for k, v in sorted(found.items()) if _KEPT.match(k) and not _SECRET.search(k)}


def limits(pid: int) -> dict[str, str]:
    """Soft limits of a process that NCCL cares about."""
    try:
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    except OSError:
        return {}
    wanted = {
        "Max locked memory": "memlock",
        "Max open files": "nofile",
        "Max core file size": "core",
    }
    found = {}
    for line in lines:
        for name, short in wanted.items():
            if line.startswith(name):
                found[short] = line[len(name) :].split()[0]
    return found


def shared_memory() -> dict[str, int] | None:
    """Size and free bytes of /dev/shm."""
    try:
        stat = os.statvfs("/dev/shm")
    except OSError:
        return None
    return {
        "size_bytes": stat.f_blocks * stat.f_frsize,
        "free_bytes": stat.f_bavail * stat.f_frsize,
    }


def xids() -> list[dict[str, Any]]:
    """Xid lines of the kernel log; empty where it may not be read, which `kernel_log_readable` tells apart."""
    found = []
    for line in _kernel_log() or ():
        match = _XID.search(line)
        if match:
            found.append({"number": int(match[2]), "bus_id": match[1], "text": line.strip()})
    return found[-200:]


def kernel_log_readable() -> bool:
    return _kernel_log() is not None


def _kernel_log() -> list[str] | None:
    return _output(["dmesg"])


def nvidia_smi(folder: Path) -> list[str]:
    """Leaves what nvidia-smi says in the run folder; the names of the files."""
    written = []
    for name, arguments in (("nvidia-smi.txt", []), ("nvidia-smi-topo.txt", ["topo", "-m"])):
        lines = _output(["nvidia-smi", *arguments])
        if lines:
            try:
                (folder / name).write_text("\n".join(lines) + "\n")
            except OSError:
                continue
            written.append(name)
    return written


def processes(pids: Iterable[int]) -> list[dict[str, Any]]:
    """State, CPU time and limits of each process."""
    found = []
    for pid in pids:
        reading = procfs.read(pid)
        if reading is not None:
            row = {"pid": pid, "state": reading.state, "cpu_seconds": round(reading.cpu_seconds, 2)}
            found.append({**row, "limits": limits(pid)})
    return found


def _output(words: list[str], seconds: float = 10.0) -> list[str] | None:
    tool = shutil.which(words[0])
    if tool is None:
        return None
    try:
        done = subprocess.run([tool, *words[1:]], capture_output=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return done.stdout.decode("utf-8", "replace").splitlines()
