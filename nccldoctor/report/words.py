"""Short ways to say ranks, sizes and counts, the same in every output."""

import re
from collections.abc import Iterable, Sequence

from nccldoctor.model.ranks import ranges

_SURROGATES = re.compile(r"[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BIDI = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_DIGITS = re.compile(r"([0-9]{1,18})")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def exact(ranks: Iterable[int]) -> str:
    """`0-3, 7`: every one, for machines; empty for no ranks."""
    return ", ".join(
        str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in _runs(ranks)
    )


def spans(ranks: Iterable[int]) -> str:
    """`0-3, 7` for people; of very many pieces the first two dozen."""
    return ranges(ranks, 24)


def _runs(ranks: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], rank)
        else:
            runs.append((rank, rank))
    return runs


def ranks_said(ranks: Sequence[int]) -> str:
    """`rank 7`, `ranks 0-3`, or nothing."""
    return f"rank{'s' * (len(ranks) != 1)} {spans(ranks)}" if ranks else ""


def listed(names: Sequence[str], most: int = 4) -> str:
    """The first names, and how many there are besides."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def plural(number: int, noun: str, many: str | None = None) -> str:
    """`1 rank`, `1,024 ranks`; `many` is the plural where an s does not make it."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def size(size_bytes: float) -> str:
    """`4 MiB`, `1.5 KiB`, `12 B`."""
    unit, *larger = ("B", "KiB", "MiB", "GiB", "TiB")
    while size_bytes >= 1024 and larger:
        size_bytes /= 1024
        unit, *larger = larger
    return f"{size_bytes:.3g} {unit}" if size_bytes < 1000 else f"{size_bytes:.0f} {unit}"


def clock(time: str) -> str:
    """`2026-11-30 05:53:32.081` of an ISO time, to the millisecond where it tells so much; UTC is taken for granted."""
    day, _, moment = time.partition("T")
    return f"{day} {moment.partition('+')[0].removesuffix('Z')[:12]}"


def source(origin: str) -> str:
    """Where progress was read, in words: `calls` is the log."""
    return {"calls": "the log", "RAS": "RAS"}.get(origin, f"the {origin}")


def naturally(name: str) -> list[tuple[int, str]]:
    """A key that puts gpu-2 before gpu-10."""
    return [
        (int(part), "") if index % 2 else (-1, part)
        for index, part in enumerate(_DIGITS.split(name))
    ]


def harmless(text: str) -> str:
    """A stranger's text made safe to look at: no terminal codes, no direction marks, no half characters."""
    text = _BIDI.sub("\ufffd", _ANSI.sub("", text))
    return _CONTROL.sub("\ufffd", _SURROGATES.sub("\ufffd", text))


def encodable(text: str) -> str:
    """The text without half characters, which UTF-8 cannot hold."""
    return _SURROGATES.sub("\ufffd", text)
