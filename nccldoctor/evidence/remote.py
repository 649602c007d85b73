"""Fetches evidence that lies elsewhere: s3://, gs://, ssh://, http:// and whatever else fsspec speaks."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]*://")
MOST_BYTES = 64 << 30
"""All that one address may bring."""


def is_remote(path: str) -> bool:
    """Is this an address and no path?"""
    return _SCHEME.match(path) is not None


def fetch(address: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """(address, local copy) of every file behind an address or a remote glob.

    Raises ValueError with one sentence when fsspec or the protocol's package is not installed, OSError when the other
    side fails.
    """
    try:
        import fsspec
    except ImportError:
        raise ValueError("remote evidence needs fsspec: pip install 'nccldoctor[remote]'") from None
    try:
        files = fsspec.open_files(address, "rb")
    except ImportError as error:
        raise ValueError(f"this protocol needs another package: {error}") from None
    left = MOST_BYTES
    for number, remote in enumerate(files):
        copy = folder / f"{number}-{Path(remote.path).name or 'index'}"
        with remote as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        left -= copy.stat().st_size
        if left < 0:
            raise ValueError(f"more than {MOST_BYTES >> 30} GiB behind this address")
        yield str(remote.full_name), copy
