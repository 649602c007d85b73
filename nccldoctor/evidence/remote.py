"""Fetches evidence that lies elsewhere: s3://, gs://, ssh://, http:// and whatever else fsspec speaks."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]*://")
MOST_BYTES = 64 << 30
"""All that one address may bring."""


def is_remote(path: str) -> bool:
    """Is this an address and no path?"""
    return _SCHEME.match(path) is not None


def shown(address: str) -> str:
    """The address as a report may have it: without the password, and without a query (which may be a signature)."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return address.partition("://")[0] + "://…"
    user, at, host = parts.netloc.rpartition("@")
    named = f"{user.partition(':')[0]}{at}{host}"
    return urlunsplit((parts.scheme, named, parts.path, "…" if parts.query else "", ""))


def without_secrets(text: str, address: str) -> str:
    """What another program says of this address, on one line and without what `shown` leaves out."""
    text = " ".join(text.split()).replace(address, shown(address))
    _, _, password = address.partition("://")[2].rpartition("@")[0].partition(":")
    query = address.partition("?")[2]
    for secret in filter(None, (query, password)):
        text = text.replace(secret, "…")
    return text


def fetch(address: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """(address as a report may have it, local copy) of every file behind an address or a remote glob.

    Raises ValueError with one sentence when fsspec or the protocol's package is not installed, OSError when the other
    side fails.
    """
    try:
        import fsspec
    except ImportError:
        raise ValueError("remote evidence needs fsspec: pip install 'nccldoctor[remote]'") from None
    try:
        # a `?` in a web address begins its query, and is no pattern
        pattern = "*" in address or not address.startswith(("http://", "https://"))
        files = fsspec.open_files(address, "rb", expand=pattern)
    except ImportError as error:
        raise ValueError(f"this protocol needs another package: {error}") from None
    left = MOST_BYTES
    for number, remote in enumerate(files):
        copy = folder / f"{number}-{Path(urlsplit(remote.path).path).name[-100:] or 'index'}"
        with remote as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        left -= copy.stat().st_size
        if left < 0:
            raise ValueError(f"more than {MOST_BYTES >> 30} GiB behind this address")
        yield shown(str(remote.full_name)), copy
