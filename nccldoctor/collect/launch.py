"""What to start: how many processes, in which command, and whether a launcher has started the ranks already."""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nccldoctor.errors import DoctorError

_TORCH = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
_OTHERS = ("accelerate", "deepspeed", "srun", "mpirun", "mpiexec")


@dataclass(frozen=True, slots=True)
class Plan:
    """One job to start. `processes` are the ranks expected on this host, None where the command alone knows.

    `inside` names the launcher that has started this process as one of its ranks; `notes` are for the user.
    """

    command: tuple[str, ...]
    processes: int | None = None
    inside: str | None = None
    rank: int | None = None
    notes: tuple[str, ...] = field(default=())


def is_script(words: Sequence[str]) -> bool:
    """Is this `train.py args` or `-m module args`, to be launched, and not a whole command?"""
    first = words[0]
    return (
        first == "-m"
        or first.endswith(".py")
        or (Path(first).is_file() and shutil.which(first) is None)
    )


def inside_launcher(environ: Mapping[str, str]) -> tuple[str, int] | None:
    """(launcher, rank) when this very process is one rank of a job that something else has launched.

    RANK alone is no proof: Kubernetes operators set it to the node's number, so LOCAL_RANK must be there too.
    """
    number = {k: int(v) for k, v in environ.items() if v.isdigit()}
    if "RANK" in number and "LOCAL_RANK" in number:
        return ("torchrun" if "TORCHELASTIC_RUN_ID" in environ else "env://"), number["RANK"]
    if "SLURM_PROCID" in number and number.get("SLURM_NTASKS", 1) > 1:
        per_node = re.match(r"\d+", environ.get("SLURM_NTASKS_PER_NODE", ""))
        if per_node is None or int(per_node[0]) > 1 or "SLURM_GPUS_PER_TASK" in environ:
            return "Slurm", number["SLURM_PROCID"]
    if "OMPI_COMM_WORLD_RANK" in number:
        return "Open MPI", number["OMPI_COMM_WORLD_RANK"]
    if "PMI_RANK" in number:
        return "MPI", number["PMI_RANK"]
    if "RAY_JOB_ID" in environ and "RANK" in number:
        return "Ray", number["RANK"]
    return None


def processes_here(environ: Mapping[str, str]) -> tuple[int, str]:
    """How many ranks this host should run, and why; torch is not imported for it."""
    for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if name in environ:
            devices = [d for d in environ[name].split(",") if d.strip() and d.strip() != "-1"]
            if devices:
                return len(devices), f"{name} lists {_count(len(devices), 'device')}"
            return 1, f"{name} hides all GPUs; use --nproc N for more processes on the CPU"
    count = gpus()
    if count:
        return count, f"this host has {_count(count, 'GPU')}"
    return 1, "no GPU found; use --nproc N for more processes on the CPU"


def gpus() -> int:
    """GPUs of this host as `nvidia-smi -L` lists them (MIG slices count for their GPU); 0 where there is none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    try:
        done = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(1 for line in done.stdout.splitlines() if line.startswith("GPU "))


@dataclass(frozen=True, slots=True)
class Elastic:
    """What is passed on to torchrun; None leaves torchrun's own default."""

    nproc: int | None = None
    nnodes: str | None = None
    node_rank: int | None = None
    rdzv_endpoint: str | None = None
    rdzv_id: str | None = None
    max_restarts: int | None = None

    def completed(self, environ: Mapping[str, str]) -> "Elastic":
        """With what torchrun itself would take from the environment (PET_*, as Kubernetes operators set it)."""
        node, nproc = environ.get("PET_NODE_RANK", ""), environ.get("PET_NPROC_PER_NODE", "")
        return replace(
            self,
            nproc=self.nproc or (int(nproc) if nproc.isdigit() else None),
            nnodes=self.nnodes or environ.get("PET_NNODES"),
            node_rank=int(node) if self.node_rank is None and node.isdigit() else self.node_rank,
            rdzv_endpoint=self.rdzv_endpoint or environ.get("PET_RDZV_ENDPOINT"),
            rdzv_id=self.rdzv_id or environ.get("PET_RDZV_ID"),
        )

    @property
    def one_host(self) -> bool:
        return (self.nnodes or "1") == "1" and self.rdzv_endpoint is None


def refuse_absent(words: Sequence[str]) -> None:
    """Raises DoctorError where the script to run is not there."""
    if words[0] != "-m" and not Path(words[0]).is_file():
        raise DoctorError(
            f"{words[0]} is no file; give a training script, or a whole command after `--`: "
            f"nccldoctor run -- {' '.join(words)}"
        )


def plan_script(
    words: Sequence[str], elastic: Elastic, folder: Path, environ: Mapping[str, str]
) -> Plan:
    """`nccldoctor run train.py args`: through torchrun, or in place where a launcher has started this rank."""
    refuse_absent(words)
    script, arguments = words[0], list(words[1:])
    python = sys.executable
    found = inside_launcher(environ)
    if found is not None and elastic.nproc is None:
        launcher, rank = found
        note = f"rank {rank} was started by {launcher} already: watching it, not launching again"
        return Plan((python, "-u", script, *arguments), 1, launcher, rank, (note,))
    nproc, why = (elastic.nproc, "--nproc") if elastic.nproc else processes_here(environ)
    command = [python, "-m", "torch.distributed.run"]
    if elastic.one_host:
        command.append("--standalone")
    for option, value in (
        ("--nnodes", elastic.nnodes or ("1" if elastic.one_host else None)),
        ("--nproc-per-node", nproc),
        ("--node-rank", elastic.node_rank),
        ("--rdzv-endpoint", elastic.rdzv_endpoint),
        ("--rdzv-id", elastic.rdzv_id),
        ("--max-restarts", elastic.max_restarts),
    ):
        if value is not None:
            command.append(f"{option}={value}")
    if elastic.rdzv_endpoint is not None:
        command.append(f"--rdzv-backend={_backend(elastic, environ)}")
    command += [f"--log-dir={folder / 'torchrun'}", script, *arguments]
    return Plan(tuple(command), nproc, notes=(f"{_count(nproc, 'process', 'es')}: {why}",))


def _backend(elastic: Elastic, environ: Mapping[str, str]) -> str:
    """Only the static rendezvous heeds a host's number; c10d deals numbers itself, and alone can begin anew."""
    numbered = elastic.node_rank is not None and not elastic.max_restarts
    return environ.get("PET_RDZV_BACKEND") or ("static" if numbered else "c10d")


def plan_command(words: Sequence[str], environ: Mapping[str, str]) -> Plan:
    """`nccldoctor run -- CMD…`: the command as it is."""
    if shutil.which(words[0]) is None:
        raise DoctorError(f"{words[0]}: no such command", exit_code=127)
    launcher = launcher_of(words)
    found = inside_launcher(environ)
    if found is not None and launcher is None:
        note = f"rank {found[1]} was started by {found[0]} already: watching it"
        return Plan(tuple(words), 1, found[0], found[1], (note,))
    nproc = _option(words, "--nproc-per-node", "--nproc") or "" if launcher in _TORCH else ""
    return Plan(tuple(words), int(nproc) if nproc.isdigit() else None)


def on_several_hosts(words: Sequence[str], elastic: Elastic, environ: Mapping[str, str]) -> bool:
    """Do other nccldoctors, of other hosts or ranks, take part in this job?"""
    if inside_launcher(environ) is not None:
        return True
    nnodes = elastic.nnodes
    if not is_script(words) and launcher_of(words) in _TORCH:
        nnodes = _option(words, "--nnodes") or environ.get("PET_NNODES")
    return nnodes not in (None, "1", "1:1")


def launcher_of(words: Sequence[str]) -> str | None:
    """The launcher that a command line calls, None for a plain program."""
    for word in words[:4]:
        name = Path(word).name
        if name in _TORCH or name in _OTHERS:
            return name
    return None


def _option(words: Sequence[str], *names: str) -> str | None:
    """The value of the first of these options on a command line, `--name value` or `--name=value`."""
    for here, following in zip(words, [*words[1:], ""], strict=True):
        name, _, value = here.partition("=")
        if name.replace("_", "-") in names:
            return value or following
    return None


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{plural if number != 1 else ''}"
