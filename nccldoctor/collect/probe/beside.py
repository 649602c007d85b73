"""Beside a hung job: can its hosts still reach each other, and do this host's GPUs still do a small collective."""

import errno
import re
import socket
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from nccldoctor.collect import nvml
from nccldoctor.collect.probe import session as probing
from nccldoctor.errors import DoctorError

CONNECT_SECONDS = 3.0
PING_BYTES_FREE = 2 << 30
"""GPU memory that must be free on every GPU before a ping is tried: a context and NCCL's buffers."""

AT_ONCE = 32
MOST_PEERS = 256
_ADDRESS = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d{1,3}){3})<(\d{1,5})>")
_ESTABLISHED = "01"


def examine(where: str, *, ping: bool, seconds: float) -> tuple[list[str], bool]:
    """What to print, and whether all peers were reached. `where` is a PID on this host or a run folder."""
    peers = peers_of_process(int(where)) if where.isdigit() else peers_in_folder(Path(where))
    lines = []
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        states = list(pool.map(lambda peer: reach(*peer), peers[:MOST_PEERS]))
    for (address, port), (state, good) in zip(peers, states, strict=False):
        lines.append(f"{'ok ' if good else 'BAD'} {address}:{port}: {state}")
    if not peers:
        lines.append("no other host is known: nothing to reach over TCP")
    good = all(fine for _, fine in states)
    if ping:
        said, passed = _ping(seconds)
        lines += said
        good = good and passed
    return lines, good


def reach(address: str, port: int, seconds: float = CONNECT_SECONDS) -> tuple[str, bool]:
    """How a TCP connection there ends. A refusal proves that the host answers: only its listener is gone."""
    try:
        with socket.create_connection((address, port), timeout=seconds):
            return "connected", True
    except ConnectionRefusedError:
        return "refused: the host answers, nobody listens on this port any more", True
    except TimeoutError:
        return f"no answer in {seconds:g} s: host down, or a firewall drops it", False
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "")
        return f"{error.strerror or error} {name}".strip(), False


def peers_of_process(pid: int) -> list[tuple[str, int]]:
    """Where this process's TCP connections lead to, and its MASTER_ADDR; other hosts only."""
    folder = Path("/proc") / str(pid)
    try:
        sockets = {
            str(entry.readlink()) for entry in (folder / "fd").iterdir() if entry.is_symlink()
        }
        environment = (folder / "environ").read_bytes().split(b"\0")
    except FileNotFoundError:
        raise DoctorError(f"There is no process {pid} on this host") from None
    except PermissionError:
        raise DoctorError(f"Process {pid} belongs to another user: run this as that user") from None
    inodes = {name[8:-1] for name in sockets if name.startswith("socket:[")}
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        path = folder / "net" / table
        if path.exists():
            found |= set(_remote(path.read_text(encoding="ascii").splitlines()[1:], family, inodes))
    values = dict(entry.decode("utf-8", "replace").partition("=")[::2] for entry in environment)
    port = values.get("MASTER_PORT", "")
    if values.get("MASTER_ADDR") and port.isdigit():
        found.add((values["MASTER_ADDR"], int(port)))
    return sorted(peer for peer in found if not _is_here(peer[0]))


def _remote(rows: Iterable[str], family: int, inodes: set[str]) -> Iterable[tuple[str, int]]:
    """The other ends of the established connections of /proc/PID/net/tcp whose inode is ours."""
    for row in rows:
        words = row.split()
        if len(words) < 10 or words[3] != _ESTABLISHED or words[9] not in inodes:
            continue
        address, _, port = words[2].partition(":")
        raw = bytes.fromhex(address)
        turned = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
        text = socket.inet_ntop(family, turned)
        yield text.removeprefix("::ffff:"), int(port, 16)


def peers_in_folder(folder: Path) -> list[tuple[str, int]]:
    """Addresses that NCCL's lines in a run folder name (`10.0.0.1<40000>`), one port an address; other hosts only."""
    if not folder.is_dir():
        raise DoctorError(f"{folder} is neither a PID nor a folder of a run")
    found: dict[str, int] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        with path.open("rb") as file:
            text = file.read(8 << 20).decode("utf-8", "replace")
        for address, port in _ADDRESS.findall(text):
            if int(port) or address not in found:
                found[address] = int(port) or 22
    return sorted((a, p) for a, p in found.items() if not _is_here(a))


def _is_here(address: str) -> bool:
    """Loopback, or an address that this host can listen on."""
    if address in ("localhost", "::1", "0.0.0.0") or address.startswith("127."):
        return True
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as one:
            one.bind((address, 0))
            return True
    except (OSError, ValueError):
        return False


def _ping(seconds: float) -> tuple[list[str], bool]:
    """One small all_reduce over this host's GPUs, in processes of its own that are killed at their deadline."""
    state = nvml.host_state()
    short = _short_of_memory(state["gpus"] if state else ())
    if short:
        return [f"no ping: {short}"], True
    with tempfile.TemporaryDirectory(prefix="nccldoctor-ping-") as scratch:
        wish = probing.Wish(Path(scratch), step_seconds=seconds, init_seconds=seconds)
        session = probing.prepare(wish, lambda text: None)
        alone = [replace(place, rank=index) for index, place in enumerate(session.places)]
        outcome = probing.start(session, "ping", "ping", places=alone)
    if outcome.failure:
        return [f"BAD ping: {outcome.failure.kind}: {outcome.failure.text}"], False
    wrong = sum(row["wrong"] for row in outcome.rows)
    slowest = max((row["time_us"] for row in outcome.rows), default=0.0)
    word = "ok " if not wrong else "BAD"
    return [
        f"{word} ping: {len(alone)} ranks, {slowest:.0f} us, {wrong} wrong values on {session.device}"
    ], not wrong


def _short_of_memory(gpus: Iterable[Mapping[str, Any]]) -> str:
    for gpu in gpus:
        free = int(gpu.get("facts", {}).get("memory_free_bytes", PING_BYTES_FREE))
        if free < PING_BYTES_FREE:
            return f"GPU {gpu['index']} has only {free >> 20} MiB free"
    return ""
