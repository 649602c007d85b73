"""Keeps the logs that the job itself writes within their limit: the middle of a file is given back to the disk.

NCCL holds its file open and writes on at its own offset, so the file can neither be renamed nor cut. A hole is punched
into it instead: head and tail stay, the blocks between them are freed at once. When the job is over, files with a hole
are rewritten as head, one line that says how much is missing, and tail.
"""

import ctypes
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_BLOCK = 4096
_SCARCE_BYTES = 512 << 20


@dataclass(slots=True)
class Governor:
    """Looks after `pattern` in `folder`; `limit_bytes` are for each file, `total_bytes` for all of them.

    `say` is told once when the disk runs short or does not take holes.
    """

    folder: Path
    pattern: str
    limit_bytes: int
    total_bytes: int
    say: Callable[[str], None]
    punch: Callable[[int, int, int], bool] = field(default_factory=lambda: _puncher())
    _holes: dict[Path, tuple[int, int]] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def look(self) -> None:
        """One round over the files; costs one stat a file."""
        files = sorted(self.folder.glob(self.pattern))
        share = min(self.limit_bytes, self.total_bytes // max(len(files), 1))
        for file in files:
            try:
                status = file.stat()
                if status.st_blocks * 512 > share:
                    self._thin(file, status.st_size, share)
            except OSError:
                continue
        self._watch_disk()

    def finish(self) -> list[str]:
        """Closes the holes of all files; one sentence for each that lost its middle."""
        return [_close(file, head, end) for file, (head, end) in sorted(self._holes.items())]

    def _thin(self, file: Path, size: int, share: int) -> None:
        whole = max(share // 4 // _BLOCK * _BLOCK, _BLOCK)
        head = min(whole, self._holes.get(file, (whole, 0))[0])
        end = (size - share // 4) // _BLOCK * _BLOCK
        if end <= head:
            return
        descriptor = os.open(file, os.O_RDWR)
        try:
            if self.punch(descriptor, head, end - head):
                self._holes[file] = (head, end)
            else:
                self._tell(f"{file.name} is beyond its limit, and this filesystem takes no holes")
        finally:
            os.close(descriptor)

    def _watch_disk(self) -> None:
        try:
            free = shutil.disk_usage(self.folder).free
        except OSError:
            return
        if free < _SCARCE_BYTES:
            self._tell(f"only {free >> 20} MiB are left on the disk of {self.folder}")

    def _tell(self, text: str) -> None:
        key = text.partition(" ")[0]
        if key not in self._told:
            self._told.add(key)
            self.say(text)


def _puncher() -> Callable[[int, int, int], bool]:
    """fallocate(2) of the C library, which Python does not offer with this mode."""
    try:
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate64
    except (OSError, AttributeError):
        return lambda descriptor, start, length: False
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]

    def punch(descriptor: int, start: int, length: int) -> bool:
        return bool(fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, start, length) == 0)

    return punch


def _close(file: Path, head: int, hole_end: int) -> str:
    """Rewrites the file without its hole, cut at whole lines."""
    part = file.with_name(file.name + ".part")
    try:
        with file.open("rb") as old, part.open("wb") as new:
            first = old.read(head).split(b"\0", 1)[0]
            first = first[: first.rfind(b"\n") + 1]
            old.seek(hole_end)
            old.readline()
            start = old.tell()
            lost = start - len(first)
            new.write(first)
            new.write(f"[nccldoctor: {lost:,} bytes left out here]\n".encode())
            shutil.copyfileobj(old, new)
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        return f"{file.name}: {error.strerror}"
    return f"{file.name}: {lost:,} bytes not kept (limit of the log volume reached)"
