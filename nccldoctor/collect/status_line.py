"""One line at the bottom of a terminal that says how the job is doing while it says nothing itself."""

import contextlib
import os
import shutil
import threading
from collections.abc import Mapping
from typing import TextIO

_ERASE = "\r\x1b[2K"


class StatusLine:
    """Shows and takes away the line; on anything but a terminal it does nothing. Safe to use from several threads."""

    def __init__(self, stream: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        self._stream = stream
        self._enabled = stream.isatty() and environ.get("TERM", "dumb") != "dumb"
        self._shown = False
        self._lock = threading.Lock()

    def show(self, text: str) -> None:
        if not self._enabled:
            return
        width = shutil.get_terminal_size().columns
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._stream.write(_ERASE + text[: width - 1])
            self._stream.flush()
            self._shown = True

    def clear(self) -> None:
        """To be called before anything else is written."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            if self._shown:
                self._stream.write(_ERASE)
                self._stream.flush()
                self._shown = False
