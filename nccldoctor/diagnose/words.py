"""How diagnoses name ranks, hosts and sizes in their sentences."""

from collections.abc import Iterable, Sequence

from nccldoctor.model.event import Event
from nccldoctor.model.job import Job
from nccldoctor.model.ranks import ranges as ranges
from nccldoctor.model.source import Line


def some(names: Sequence[str], most: int = 4) -> str:
    """`a, b, c and 5 more`."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def who(job: Job, events: Iterable[Event], otherwise: str = "A rank") -> str:
    """`Rank 7 on gpu-node-04`, `Ranks 0-3 on 2 hosts`: the writers of these events, for the start of a sentence."""
    events = list(events)
    return who_ranks(job.ranks_of(events), job.hosts_of(events), otherwise)


def who_ranks(ranks: Sequence[int], hosts: Sequence[str], otherwise: str = "A rank") -> str:
    """The same from ranks and hosts."""
    if len(hosts) > 4:
        where = f" on {len(hosts)} hosts"
    else:
        where = f" on {', '.join(hosts)}" if hosts else ""
    if not ranks:
        return f"{'Ranks' if otherwise == 'A rank' and len(hosts) > 1 else otherwise}{where}"
    return f"Rank{'s' * (len(set(ranks)) != 1)} {ranges(ranks)}{where}"


def lines(events: Iterable[Event], most: int = 4) -> tuple[Line, ...]:
    """The lines of the first of these events, one a text."""
    found: dict[tuple[str, str], Line] = {}
    for event in events:
        found.setdefault((event.line.file, event.line.text), event.line)
        if len(found) == most:
            break
    return tuple(found.values())


def nth(number: int) -> str:
    """`1st`, `2nd`, `3rd`, `4th`, `11th`, `41,207th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number:,}{ending or 'th'}"


def size(number: int) -> str:
    """`16 MiB`: bytes for people."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= unit:
            return (
                f"{number / unit:.0f} {name}"
                if number % unit == 0
                else f"{number / unit:.1f} {name}"
            )
    return f"{number} bytes"
