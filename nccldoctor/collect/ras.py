"""A client of NCCL's RAS service: asks how far the ranks are, and never changes the job.

Of the protocol only questions are used (STATUS, VERBOSE STATUS, DIAGNOSTICS); CONTROL, which changes the running job, is
not in this file.
"""

import json
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any

_SPARE_SECONDS = 6.0
_MOST_BYTES = 64 << 20


def ask(address: str, command: str, *, form: str = "text", seconds: float = 5.0) -> str | None:
    """The answer to one question, None where nothing answers; `form` json falls back to text before NCCL 2.28.7.

    `seconds` is the time that RAS itself gives each leg of its collection.
    """
    if command not in ("STATUS", "VERBOSE STATUS", "DIAGNOSTICS"):
        raise ValueError(f"not a question: {command}")
    host, port = split_address(address)
    try:
        with socket.create_connection((host, port), timeout=2.0) as link:
            link.settimeout(seconds + _SPARE_SECONDS)
            stream = link.makefile("rwb")
            if not _say(stream, "CLIENT PROTOCOL 2").startswith("SERVER PROTOCOL"):
                return None
            _say(stream, f"TIMEOUT {int(seconds)}")
            if form == "json":
                _say(stream, "SET FORMAT json")
            stream.write(f"{command}\n".encode())
            stream.flush()
            data = stream.read(_MOST_BYTES)
    except (OSError, ValueError):
        return None
    return data.decode("utf-8", "replace")


def split_address(address: str) -> tuple[str, int]:
    """HOST:PORT, [v6]:PORT or a bare port on this host."""
    host, _, port = address.rpartition(":")
    return (host.strip("[]") or "localhost"), int(port)


def version(answer: str) -> tuple[int, int] | None:
    """NCCL's version as an answer tells it, text or JSON."""
    match = re.search(r"(?:NCCL version |\"nccl_version\"\s*:\s*\")(\d+)\.(\d+)", answer)
    return (int(match[1]), int(match[2])) if match else None


def launched(answer: str) -> dict[int, dict[str, int]]:
    """Per rank of its communicator the collectives launched, {rank: {communicator: count}}, from a JSON answer."""
    return _launched(answer, lambda row: int(row["rank"]))


def launched_by_process(answer: str) -> dict[int, dict[str, int]]:
    """The same per process number, for the processes of one host."""
    return _launched(answer, lambda row: int(row["pid"]))


def _launched(answer: str, key: Callable[[Mapping[str, Any]], int]) -> dict[int, dict[str, int]]:
    try:
        body: dict[str, Any] = json.loads(answer[answer.find("{") :])
    except ValueError:
        return {}
    found: dict[int, dict[str, int]] = {}
    for comm in body.get("communicators", []):
        name = f"{comm.get('hash')}/{comm.get('secondary_hash')}"
        for row in comm.get("ranks", []):
            counts = row.get("collective_counts") or {}
            found.setdefault(key(row), {})[name] = sum(int(value) for value in counts.values())
    return found


def _say(stream: Any, command: str) -> str:
    stream.write(f"{command}\n".encode())
    stream.flush()
    return str(stream.readline(4096).decode("utf-8", "replace"))
