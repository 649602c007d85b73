"""Writes a file whole or not at all."""

import os
import tempfile
from pathlib import Path

from nccldoctor.errors import DoctorError


def write_text(path: Path, text: str) -> None:
    """Writes beside `path` and renames over it; raises DoctorError, naming the path, when that fails."""
    try:
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
            Path(scratch).chmod(0o644)
            Path(scratch).replace(path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise DoctorError(
            f"Cannot write {path}: {error.strerror}; name another place with --html, --json or --markdown"
        ) from error
