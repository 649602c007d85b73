"""Turns the paths that a user gives into inputs: files, globs, folders, `-`, and the members of tar files."""

import atexit
import glob
import os
import shutil
import stat
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nccldoctor.evidence.opening import Input, open_input
from nccldoctor.evidence.remote import fetch, is_remote, shown, without_secrets

__all__ = ["Input", "discover"]

DEEPEST_TAR = 3
MOST_MEMBERS = 100_000
_SKIPPED_FOLDERS = frozenset({".git", ".nccldoctor", "__pycache__", "node_modules"})


def discover(paths: Sequence[str]) -> list[Input]:
    """All inputs behind `paths`, each file once, in a fixed order: as given, and sorted within folders and globs.

    What cannot be used comes back as an `Input` whose `trouble` says why in one sentence. Raises nothing.
    """
    found = _Found(set(), [])
    for path in paths:
        found.add(path)
    return found.inputs


@dataclass
class _Found:
    seen: set[tuple[int, int]]
    inputs: list[Input]

    def add(self, path: str) -> None:
        if path == "-":
            self._take(_spool("standard input", sys.stdin.buffer))
        elif is_remote(path):
            self._add_remote(path)
        elif Path(path).exists():
            self._add_existing(path)
        elif matches := _matches(path):
            for match in matches:
                self._add_existing(match)
        else:
            what = (
                "no file matches this pattern" if glob.has_magic(path) else "there is no such file"
            )
            self._refuse(path, what)

    def _add_remote(self, address: str) -> None:
        before = len(self.inputs)
        try:
            for name, copy in fetch(address, Path(tempfile.mkdtemp(dir=_spool_folder()))):
                self._take(Input(name, str(copy), size=copy.stat().st_size))
        except (
            Exception
        ) as error:  # every protocol has errors of its own; one of them costs this address only
            why = without_secrets(str(error) or type(error).__name__, address)
            self._refuse(shown(address), f"cannot be fetched: {why}")
            return
        if len(self.inputs) == before:
            self._refuse(shown(address), "nothing lies behind this address")

    def _add_existing(self, path: str) -> None:
        if not Path(path).is_dir():
            self._add_file(path)
            return
        before = len(self.inputs)
        for file in _walk(path):
            self._add_file(file)
        if len(self.inputs) == before:
            self._refuse(path, "this folder has no files")

    def _add_file(self, path: str) -> None:
        try:
            state = Path(path).stat()
        except OSError as error:
            self._refuse(path, f"cannot be read: {error.strerror or error}")
            return
        if not stat.S_ISREG(state.st_mode):
            self._refuse(
                path, f"is {_nature(state.st_mode)}, not a file; give its content with `-`"
            )
            return
        key = (state.st_dev, state.st_ino)
        if key in self.seen:
            return
        self.seen.add(key)
        self._take(Input(path, path, size=state.st_size))

    def _take(self, item: Input, depth: int = 0) -> None:
        if item.trouble:
            self.inputs.append(item)
            return
        try:
            members = list(_members(item)) if depth < DEEPEST_TAR else None
        except (OSError, ValueError, EOFError) as error:
            reason = getattr(error, "strerror", None) or error
            self._refuse(item.path, f"cannot be read: {reason}")
            return
        if members is None:
            self.inputs.append(item)
            return
        for member in members:
            if member is item:
                self.inputs.append(item)
            else:
                self._take(member, depth + 1)

    def _refuse(self, path: str, why: str) -> None:
        self.inputs.append(Input(path, path, trouble=why))


def _matches(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern, recursive=True)) if glob.has_magic(pattern) else []  # noqa: PTH207


def _walk(folder: str) -> Iterator[str]:
    """Files under a folder, sorted; links to folders are not followed, so that no loop can catch us."""
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED_FOLDERS)
        for name in sorted(files):
            path = os.path.join(root, name)  # noqa: PTH118
            if Path(path).is_file():
                yield path


def _nature(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device"


def _members(item: Input) -> Iterator[Input]:
    """The members of a tar file, or the input itself when it is none."""
    with open_input(item) as stream:
        head = stream.peek(512)[:512]
        if head[257:262] != b"ustar":
            yield item
            return
        compressed = stream.compressed
    if compressed:
        with open_input(item) as stream:
            item = _spool(item.path, stream)
    with open_input(item) as raw, tarfile.open(fileobj=raw, mode="r:") as archive:
        for count, member in enumerate(_tar_entries(archive)):
            if count >= MOST_MEMBERS:
                yield Input(item.path, item.file, trouble=f"more than {MOST_MEMBERS} files in it")
                return
            if member.isfile():
                yield Input(
                    f"{item.path}:{member.name}",
                    item.file,
                    offset=item.offset + member.offset_data,
                    size=member.size,
                )


def _tar_entries(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """The entries up to the place where the archive is cut."""
    while True:
        try:
            member = archive.next()
        except (tarfile.TarError, EOFError):
            return
        if member is None:
            return
        yield member


_spools: list[str] = []


def _spool_folder() -> str:
    """A temporary folder that goes when the program ends."""
    if not _spools:
        _spools.append(tempfile.mkdtemp(prefix="nccldoctor-"))
        atexit.register(shutil.rmtree, _spools[0], ignore_errors=True)
    return _spools[0]


def _spool(name: str, stream: BinaryIO) -> Input:
    """What can be read once only, kept in a temporary file until the program ends."""
    handle, path = tempfile.mkstemp(dir=_spool_folder())
    with os.fdopen(handle, "wb") as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)
        return Input(name, path, size=copy.tell())
