"""Reads the link types out of what `amd-smi topology` prints: tables whose rows and columns are the GPUs' PCI addresses."""

import re
from collections.abc import Iterable, Sequence

from nccldoctor.model.events.gpus import LinkMatrix
from nccldoctor.model.source import NOBODY, Line

_TABLE = re.compile(r"^\s*([A-Z][A-Z -]{1,40}) TABLE:\s*$")
_ADDRESS = re.compile(r"^[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d$")


def matrices(lines: Sequence[Line]) -> Iterable[LinkMatrix]:
    """One matrix for each table of link types. GPUs are numbered by their columns, as amd-smi numbers them."""
    for place, line in enumerate(lines):
        title = _TABLE.match(line.text)
        if title is None or title[1] != "LINK TYPE":
            continue
        columns = _addresses(lines[place + 1].text) if place + 1 < len(lines) else []
        links: dict[tuple[str, str], str] = {}
        for row in lines[place + 2 : place + 2 + len(columns)]:
            address, *kinds = row.text.split()
            if address not in columns or len(kinds) != len(columns):
                break
            for column, kind in enumerate(kinds):
                if columns[column] != address:
                    links[f"GPU{columns.index(address)}", f"GPU{column}"] = kind
        if links:
            names = tuple(f"GPU{number}" for number in range(len(columns)))
            yield LinkMatrix(line=line, speaker=NOBODY, devices=names, links=links)


def _addresses(text: str) -> list[str]:
    words = text.split()
    return words if words and all(map(_ADDRESS.match, words)) else []
