"""Counts in how many dialects and versions each diagnosis is tried: `python -m tests.catalogue_cases.dialects`."""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from nccldoctor.diagnose.catalogue import diagnoses
from nccldoctor.evidence.kinds import kind_of
from nccldoctor.model.source import Kind

HEAD = re.compile(r"^=== (?:(?:top|has) (?P<code>[A-Z]+\d+)|quiet) \| (?P<name>.+)$", re.M)

_STACK = re.compile(r"\bthread (?:0x)?[0-9a-f]+ \(", re.IGNORECASE)

WRAPPED: Mapping[str, str] = {
    "kubectl logs --prefix": "[pod/train-0/pytorch] ",
    "syslog": "Nov 30 04:12:09 gpu-node-77 train[4711]: ",
    "CRLF": "",
}
"""What collectors put in front of every line; CRLF changes the ends."""


def wrap(dialect: str, log: str) -> str:
    if dialect == "CRLF":
        return log.replace("\n", "\r\n")
    return "".join(WRAPPED[dialect] + line for line in log.splitlines(keepends=True))


def is_log(sample: object) -> bool:
    """Is it the lines of a log? Whole files of other kinds, and stacks, never come through a collector."""
    if not isinstance(sample, str) or _STACK.search(sample):
        return False
    return kind_of(sample.encode()) is Kind.LOG


def count() -> dict[str, list[str]]:
    """Code → the names of its own samples, of the cases beside this file, and the dialects that they are wrapped in."""
    found: dict[str, list[str]] = defaultdict(list)
    for diagnosis in diagnoses():
        found[diagnosis.code] += diagnosis.fires_on
        if any(map(is_log, diagnosis.fires_on.values())):
            found[diagnosis.code] += WRAPPED
    for file in sorted(Path(__file__).parent.glob("cases*.txt")):
        for head in HEAD.finditer(file.read_text("utf-8")):
            if head["code"]:
                found[head["code"]].append(head["name"])
    return found


def main() -> None:
    for code, names in sorted(count().items(), key=lambda item: (len(item[1]), item[0])):
        print(f"{code:<10} {len(names):>3}  {' | '.join(names)[:150]}")


if __name__ == "__main__":
    main()
