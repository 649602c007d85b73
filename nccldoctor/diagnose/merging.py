"""Many findings of one kind into one: a fault on each of a hundred hosts is one finding with a hundred hosts."""

from collections.abc import Iterable
from dataclasses import replace

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.words import some

MOST_LINES = 8


def merged(found: Iterable[Found]) -> Iterable[Found]:
    """One finding for each severity and confidence, with all ranks and hosts, in the words of the first."""
    groups = apart(found, lambda one: (one.severity, one.confidence, one.consequence))
    for same in groups.values():
        first, rest = same[0], same[1:]
        if not rest:
            yield first
            continue
        elsewhere = sorted({h for one in rest for h in one.hosts})
        where = f" on {some(elsewhere)}" if elsewhere else ""
        # One line of each, then what is left of the first's.
        lines = [*(one.evidence[0] for one in same), *first.evidence[1:]]
        yield replace(
            first,
            title=f"{first.title}; {len(rest)} more like it{where}",
            evidence=tuple(dict.fromkeys(lines))[:MOST_LINES],
            ranks=tuple(sorted({r for one in same for r in one.ranks})),
            hosts=tuple(sorted({h for one in same for h in one.hosts})),
        )
