"""Takes in what the ranks send: status datagrams, questions of the launcher's agent, and their output, line by line."""

import contextlib
import json
import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nccldoctor.collect.output import HeadTail, Lines

_CHUNK = 1 << 16


@dataclass(slots=True)
class RankState:
    """What one rank has told so far; `heard` is the monotonic time of its last message."""

    pid: int
    rank: int | None
    local_rank: int | None
    heard: float
    address: Any
    status: dict[str, Any] = field(default_factory=dict)
    output_bytes: int = 0


@dataclass(slots=True)
class _Stream:
    """One pipe being read: lines go to `file` and to our own stdout (1) or stderr (2), with `prefix` in both."""

    descriptor: int
    target: int
    file: HeadTail
    prefix: bytes
    lines: Lines
    pid: int | None


class Intake(threading.Thread):
    """A thread of the launcher that reads all sockets and pipes of one job.

    `ranks` is keyed by process number; `asked` holds the agents' messages that wait for an answer.
    """

    def __init__(
        self,
        folder: Path,
        run: str,
        *,
        limit_bytes: int,
        echo: bool = True,
        before_echo: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(name="intake", daemon=True)
        self.folder = folder
        self.address = f"nccldoctor.{run}"
        self.ranks: dict[int, RankState] = {}
        self.asked: list[tuple[dict[str, Any], Any]] = []
        self.answers: dict[int, dict[str, Any]] = {}
        self.changed = threading.Event()
        self.output_bytes = 0
        self.output_at = time.monotonic()
        self._limit = limit_bytes
        self._echo = echo
        self._before_echo = before_echo
        self._files: dict[str, HeadTail] = {}
        self._selector = selectors.DefaultSelector()
        self._datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._datagrams.bind("\0" + self.address)
        self._doorbell = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._doorbell.bind("\0" + self.address + ".out")
        self._doorbell.listen(256)
        self._open = 0
        self._closing = False
        self._recording = True
        self._quiet = False
        self._wake_read, self._wake_write = os.pipe()
        self._register(self._datagrams, self._datagram)
        self._register(self._doorbell, self._visitor)
        self._register(self._wake_read, lambda: os.read(self._wake_read, 64))

    def pipes(self) -> tuple[int, int]:
        """Two pipes for the job's own stdout and stderr, already being read; the caller closes these ends."""
        ends = []
        for target in (1, 2):
            read, write = os.pipe()
            self._add(read, target, "launcher.out", b"", None)
            ends.append(write)
        return ends[0], ends[1]

    def ask_all(self, request: Mapping[str, Any]) -> list[int]:
        """Sends a request to every rank that has reported; the process numbers of those that it reached."""
        data = json.dumps(request).encode()
        reached = []
        for state in sorted(self.ranks.values(), key=lambda s: s.pid):
            with contextlib.suppress(OSError):
                self._datagrams.sendto(data, state.address)
                reached.append(state.pid)
        return reached

    def attempt(self) -> int:
        """Which attempt of the job its ranks belong to, counted from 0: torchrun may start them again."""
        return max(
            (int(s.status.get("attempt") or 0) for s in list(self.ranks.values())), default=0
        )

    def give_leave(self, address: Any) -> None:
        """Answers an agent that waits."""
        with contextlib.suppress(OSError):
            self._datagrams.sendto(b"{}", address)

    def finish(self, seconds: float) -> None:
        """Reads on until all pipes have ended, for `seconds` at most, and closes the files."""
        self._closing = True
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"x")
        self.join(seconds)
        for file in self._files.values():
            file.close()
        if not self.is_alive():
            self._selector.close()
            self._datagrams.close()
            self._doorbell.close()
            os.close(self._wake_read)
            os.close(self._wake_write)

    def close_record(self, *, quiet: bool) -> None:
        """From now on output is only shown, and with `quiet` the ranks' alone.

        What a job and its launcher say while they are being ended is no evidence of what ails them.
        """
        self._recording = False
        self._quiet = quiet

    def troubles(self) -> list[str]:
        """What the disk refused or the limit cut, one sentence a file."""
        found = []
        for name, file in sorted(self._files.items()):
            if file.lost_bytes:
                why = file.trouble or "limit of the log volume reached"
                found.append(f"{name}: {file.lost_bytes:,} bytes not kept ({why})")
        return found

    def run(self) -> None:
        while not (self._closing and self._open == 0):
            for key, _ in self._selector.select(0.5):
                # A thread that dies here would leave the job blocked on full pipes.
                with contextlib.suppress(Exception):
                    key.data()

    def _register(self, what: Any, action: Callable[[], object]) -> None:
        self._selector.register(what, selectors.EVENT_READ, action)

    def _datagram(self) -> None:
        while True:
            try:
                data, address = self._datagrams.recvfrom(1 << 18)
            except OSError:
                return
            with contextlib.suppress(ValueError, TypeError, KeyError):
                self._message(json.loads(data), address)

    def _message(self, message: dict[str, Any], address: Any) -> None:
        pid = int(message["pid"])
        kind = message.get("kind")
        if kind in ("ended", "failed"):
            self.asked.append((message, address))
            self.changed.set()
            return
        if kind == "dumped":
            self.answers[pid] = message
            self.changed.set()
            return
        if kind != "status":
            return
        now = time.monotonic()
        state = self.ranks.get(pid)
        if state is None:
            state = RankState(pid, message.get("rank"), message.get("local_rank"), now, address)
            self.ranks[pid] = state
        state.rank = message.get("rank", state.rank)
        state.heard, state.address = now, address
        state.status = {**state.status, **message}

    def _visitor(self) -> None:
        """A rank asks for pipes of its own: it gets the writing ends over the socket."""
        link, _ = self._doorbell.accept()
        with link:
            link.settimeout(2)
            try:
                hello = json.loads(link.recv(4096))
                rank, local, pid = hello["rank"], hello.get("local_rank"), int(hello["pid"])
                ends = []
                for target in (1, 2):
                    read, write = os.pipe()
                    prefix = f"[rank{int(rank)}]: ".encode()
                    self._add(read, target, f"rank_{int(rank)}.out", prefix, pid)
                    ends.append(write)
                socket.send_fds(link, [b"x"], ends)
            except (OSError, ValueError, KeyError, TypeError):
                return
            for end in ends:
                os.close(end)
        now = time.monotonic()
        self.ranks.setdefault(pid, RankState(pid, rank, local, now, None))

    def _add(self, descriptor: int, target: int, name: str, prefix: bytes, pid: int | None) -> None:
        if name not in self._files:
            self._files[name] = HeadTail(self.folder / name, self._limit)
        stream = _Stream(descriptor, target, self._files[name], prefix, Lines(), pid)
        self._open += 1
        self._register(descriptor, lambda: self._pump(stream))

    def _pump(self, stream: _Stream) -> None:
        try:
            data = os.read(stream.descriptor, _CHUNK)
        except OSError:
            data = b""
        lines = stream.lines.feed(data) if data else stream.lines.rest()
        if data:
            self.output_bytes += len(data)
            self.output_at = time.monotonic()
            if stream.pid in self.ranks:
                self.ranks[stream.pid].output_bytes += len(data)
        else:
            self._selector.unregister(stream.descriptor)
            os.close(stream.descriptor)
            self._open -= 1
        text = b"".join(stream.prefix + line for line in lines)
        if not text:
            return
        if self._recording:
            stream.file.write(text)
        if self._echo and not (self._quiet and stream.pid is None):
            out = sys.stdout if stream.target == 1 else sys.stderr
            with contextlib.suppress(OSError, ValueError):
                self._before_echo()
                out.buffer.write(text)
                out.buffer.flush()
