"""A rally over the job's own key-value store, through a small child process that has PyTorch."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from nccldoctor.collect import procfs
from nccldoctor.collect.intake import RankState
from nccldoctor.collect.rally import Alarm

_CHILD = Path(__file__).with_name("store_child.py")


class Store:
    """One nccldoctor at the store; where PyTorch, the store or the child is missing it reaches nobody, in silence."""

    def __init__(
        self, address: tuple[str, int], name: str, python: str, environ: Mapping[str, str]
    ) -> None:
        quiet = {
            k: v for k, v in environ.items() if not k.startswith(("NCCLDOCTOR_", "PYTHONPATH"))
        }
        quiet["CUDA_VISIBLE_DEVICES"] = ""
        self._alarms: dict[str, Alarm] = {}
        self._secured: set[str] = set()
        self._others = 0
        self._rest = b""
        self._child: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):
            self._child = subprocess.Popen(
                [python, "-u", str(_CHILD), address[0], str(address[1]), name],
                env=quiet,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            assert self._child.stdout is not None
            os.set_blocking(self._child.stdout.fileno(), False)

    def call(self, alarm: Alarm) -> None:
        self._alarms[alarm.origin] = alarm
        self._tell({"do": "alarm", "alarm": alarm.to_dict(), "origin": alarm.origin})

    def alarms(self) -> list[Alarm]:
        self._hear()
        return list(self._alarms.values())

    def secure(self, origin: str) -> None:
        self._tell({"do": "secured", "origin": origin})

    def secured(self, origin: str) -> bool:
        self._hear()
        return self._child is None or not self._others or origin in self._secured

    def others(self) -> int:
        return self._others

    def leave(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None and child.stdout is not None
        with contextlib.suppress(OSError):
            child.stdin.close()
        try:
            child.wait(1.0)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()

    def _tell(self, message: Mapping[str, object]) -> None:
        if self._child is None or self._child.stdin is None:
            return
        try:
            self._child.stdin.write(json.dumps(message).encode() + b"\n")
            self._child.stdin.flush()
        except OSError:
            self.leave()

    def _hear(self) -> None:
        if self._child is None or self._child.stdout is None:
            return
        while True:
            try:
                data = os.read(self._child.stdout.fileno(), 1 << 16)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.leave()
                break
            self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                message = json.loads(line)
                if "alarm" in message:
                    alarm = Alarm.from_dict(message["alarm"])
                    self._alarms.setdefault(alarm.origin, alarm)
                if "secured" in message:
                    self._secured.add(str(message["secured"]))
                if "others" in message:
                    self._others = int(message["others"])


def where(
    endpoint: str | None, ranks: Sequence[RankState], environ: Mapping[str, str]
) -> tuple[str, int] | None:
    """The store of a job on several hosts: where its hosts meet, else what its ranks have as MASTER_ADDR and MASTER_PORT.

    None while it is not known, and for a job whose ranks are all on this host.
    """
    if endpoint is not None:
        host, _, port = endpoint.rpartition(":") if ":" in endpoint else (endpoint, "", "29400")
        return (host.strip("[]"), int(port)) if port.isdigit() and int(port) else None
    there = [s for s in ranks if s.status.get("stage") == "group"]
    if not there or not beyond(there, environ):
        return None
    variables = {**environ, **procfs.environment(there[0].pid)}
    host, port = variables.get("MASTER_ADDR", ""), variables.get("MASTER_PORT", "")
    return (host, int(port)) if host and port.isdigit() else None


def beyond(ranks: Sequence[RankState], environ: Mapping[str, str]) -> bool:
    """Does the job have ranks on other hosts? By the launcher's count for this host, else by the ranks seen here."""
    world = max((int(s.status.get("world") or 0) for s in ranks), default=0)
    local = procfs.environment(ranks[0].pid) if ranks else {}
    for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"):
        size = local.get(name, environ.get(name, ""))
        if size.isdigit():
            return world > int(size)
    if environ.get("SLURM_NNODES", "").isdigit():
        return int(environ["SLURM_NNODES"]) > 1
    return world > len(ranks)


def python_of(ranks: Sequence[RankState]) -> str:
    """The interpreter of the ranks, which has PyTorch; nccldoctor's own where they do not tell."""
    for state in ranks:
        words = procfs.command(state.pid)
        if words and Path(words[0]).name.startswith("python"):
            found = shutil.which(words[0], path=procfs.environment(state.pid).get("PATH"))
            if found is not None:
                return found
    return sys.executable
