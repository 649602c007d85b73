"""Writes a file whole or not at all."""

import os
import tempfile
from pathlib import Path

from nccldoctor.errors import DoctorError


def write_text(path: Path, text: str) -> None:
    """Writes beside `path` and renames over it; raises DoctorError, naming the path, when that fails."""
    write_bytes(path, text.encode("utf-8", "replace"))


def write_bytes(path: Path, data: bytes) -> None:
    """The same for bytes. What is there and no file (a pipe, a terminal, /dev/stdout) is written to as it is."""
    path = Path(os.path.realpath(path))
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                stream.write(data)
            return
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(scratch).chmod(0o644)
            Path(scratch).replace(path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = error.strerror or error
        raise DoctorError(f"Cannot write {path}: {reason}; name another place for it") from error
