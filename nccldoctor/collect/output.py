"""A rank's output on disk, with a limit: the head stays, the tail rolls, the middle is counted."""

import os
from pathlib import Path


class HeadTail:
    """Writes lines into `path`; beyond `limit_bytes` the first half stays and the last lines roll in two pieces.

    Writing never raises: where the disk refuses, the lines are counted as lost and the job goes on.
    """

    def __init__(self, path: Path, limit_bytes: int, reserve_bytes: int = 64 << 20) -> None:
        self.path = path
        self.lost_bytes = 0
        self.trouble = ""
        self._reserve = reserve_bytes
        self._head = limit_bytes // 2
        self._piece = max(limit_bytes // 4, 1)
        self._written = 0
        self._rolling = [path.with_name(path.name + ".tail0"), path.with_name(path.name + ".tail1")]
        self._sizes: list[int] = []
        self._file = self._open(path)

    def write(self, data: bytes) -> None:
        if self._sizes:
            if self._sizes[-1] + len(data) > self._piece:
                self._roll()
        elif self._written + len(data) > self._head:
            self._sizes = [0]
            self._file = self._open(self._rolling[0])
        if self._put(data):
            self._written += len(data)
            if self._sizes:
                self._sizes[-1] += len(data)
        else:
            self.lost_bytes += len(data)

    def close(self) -> None:
        """Joins head and tail into one file, with one line between them that says how much is missing."""
        self._shut(self._file)
        self._file = -1
        if not self._sizes:
            return
        gap = f"[nccldoctor: {self.lost_bytes:,} bytes left out here to keep this log within its limit]\n"
        try:
            with self.path.open("ab") as whole:
                if self.lost_bytes:
                    whole.write(gap.encode())
                for piece in self._rolling:
                    if piece.exists():
                        whole.write(piece.read_bytes())
                        piece.unlink()
        except OSError as error:
            self.trouble = self.trouble or str(error)

    def _roll(self) -> None:
        """The newer piece becomes the older one; what the older one held is lost."""
        self._shut(self._file)
        if len(self._sizes) == 2:
            self.lost_bytes += self._sizes.pop(0)
            try:
                self._rolling[1].replace(self._rolling[0])
            except OSError as error:
                self.trouble = self.trouble or str(error)
        self._sizes.append(0)
        self._file = self._open(self._rolling[1])

    def _open(self, path: Path) -> int:
        try:
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        except OSError as error:
            self.trouble = self.trouble or str(error)
            return -1

    def _shut(self, file: int) -> None:
        if file >= 0:
            os.close(file)

    def _put(self, data: bytes) -> bool:
        if self._file < 0:
            return False
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self.trouble = self.trouble or str(error)
            return False
        return True


class Lines:
    """Cuts a stream of bytes into whole lines (a progress bar's `\\r` ends one too), at most `longest` bytes each."""

    def __init__(self, longest: int = 1 << 16) -> None:
        self._longest = longest
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        data = self._rest + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        self._rest = data[end:]
        lines = data[:end].splitlines(keepends=True) if end else []
        if len(self._rest) >= self._longest:
            lines.append(self._rest + b"\n")
            self._rest = b""
        return lines

    def rest(self) -> list[bytes]:
        rest, self._rest = self._rest, b""
        return [rest + b"\n"] if rest else []
