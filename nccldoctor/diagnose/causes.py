"""Which finding explains which: the codes say what can follow from what, time says which came first."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from nccldoctor.model.finding import Finding, Role, Severity

_SEVERITIES = list(Severity)


def explained_by(
    findings: Sequence[Finding],
    explains: Mapping[str, frozenset[str]],
    times: Mapping[tuple[str, int], datetime],
) -> dict[int, frozenset[int]]:
    """Index of a finding → indexes of those that explain it; a finding that nothing explains is missing.

    Only loud findings explain others, none explains a graver one, and one that calls itself a consequence explains
    nothing. Where findings explain one another in a circle
    (a dead rank closes connections; a broken network kills ranks), the one whose evidence is the earliest is
    the cause; without times, the one that can explain the most.
    """
    edges = {
        index: {
            i
            for i, other in enumerate(findings)
            if i != index
            and other.severity is not Severity.NOTE
            and other.role is not Role.CONSEQUENCE
            and finding.code in explains.get(other.code, frozenset())
            and _SEVERITIES.index(other.severity) <= _SEVERITIES.index(finding.severity)
        }
        for index, finding in enumerate(findings)
    }
    firsts = [_first(finding, times) for finding in findings]

    def precedence(index: int) -> tuple[bool, float, int, str, int]:
        first = firsts[index]
        code = findings[index].code
        stamp = first.timestamp() if first else 0.0
        return first is None, stamp, -len(explains.get(code, ())), code, index

    for circle in _circles(edges):
        head = min(circle, key=precedence)
        edges[head] -= circle
    return {index: frozenset(by) for index, by in edges.items() if by}


def _first(finding: Finding, times: Mapping[tuple[str, int], datetime]) -> datetime | None:
    stamps = [t for e in finding.evidence if (t := times.get((e.file, e.number))) is not None]
    return min(stamps, default=None)


def _circles(edges: Mapping[int, set[int]]) -> list[set[int]]:
    """Groups of findings that reach one another."""
    reach = {index: _reachable(edges, index) for index in edges}
    circles: list[set[int]] = []
    for index in edges:
        circle = {i for i in reach[index] if index in reach[i]}
        if len(circle) > 1 and circle not in circles:
            circles.append(circle)
    return circles


def _reachable(edges: Mapping[int, set[int]], start: int) -> set[int]:
    seen: set[int] = set()
    open_ends = set(edges[start])
    while open_ends:
        index = open_ends.pop()
        if index not in seen:
            seen.add(index)
            open_ends |= edges[index]
    return seen
