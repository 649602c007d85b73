"""RAS's text report: the table of groups of communicators, and the blocks that name outliers; 2.24 to 2.32."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from nccldoctor.model.events.ras import RasComm, RasGroup, RasMissing, RasRank
from nccldoctor.model.source import Line

_ROW = re.compile(
    r"^\s*(?P<number>\d+)\s+(?P<comms>\d+)\s+[\d-]+\s+[\d-]+\s+(?P<size>\d+)\s+\d+\s+"
    r"(?P<status>[A-Z][A-Z,]*)\s+(?P<errors>[A-Z][A-Z,]*)\s*$"
)
_BLOCK = re.compile(r"^#(?P<group>\d+)-\d+ \((?P<hash>[0-9a-f]{1,16})\) (?P<what>[A-Z]+)")
_COUNTS = re.compile(r"^\s+Communicator ranks have different (?P<op>\w+) operation counts")
_MANY = re.compile(
    r"^\s+(?P<ranks>\d+) ranks? have (?:launched up to operation (?P<count>\d+)|(?P<none>not launched any))"
)
_ONE = re.compile(
    r"^\s+Rank (?P<rank>\d+) has (?:launched up to operation (?P<count>\d+)|(?P<none>not launched any)"
    r"|status (?P<status>[A-Z]+))"
)
_OWNER = re.compile(
    r"-- GPU (?P<gpu>\d+)(?: \(NVML \d+\))? managed by process (?P<pid>\d+) on node (?P<host>\S+)"
)
_SHARED = re.compile(r"^\s+\d+ ranks (?:have status (?P<status>[A-Z]+)|reported (?P<error>\S.*))")
_LISTED = re.compile(r"^\s+Rank (?P<rank>\d+) -- GPU")
"""A rank below a line that speaks of several: what it says holds for this one, or it is missing."""
_MISSING_OLD = re.compile(r"^\s+The missing ranks?: (?P<ranks>[\d,\s-]+)$")
_TIMEOUTS = re.compile(r"^\s+Encountered (\d+) communication timeouts?")
_ERROR = re.compile(r"^\s+Rank (?P<rank>\d+) reported (?P<error>.+?) -- GPU")


@dataclass
class _Rank:
    host: str = ""
    pid: int = -1
    device: int | None = None
    launched: dict[str, int] = field(default_factory=dict)
    status: str = ""
    error: bool = False
    line: Line | None = None


@dataclass
class _Comm:
    """A communicator that blocks speak of; `rest` holds the counts of the ranks that are not listed, per operation.

    `shared` is the last line on several ranks, which the ranks listed below it share.
    """

    group: int
    line: Line
    ranks: dict[int, _Rank] = field(default_factory=dict)
    missing: dict[int, RasMissing] = field(default_factory=dict)
    rest: dict[str, list[int]] = field(default_factory=dict)
    mismatch: bool = False
    op: str = ""
    shared: re.Match[str] | None = None


def read_answer(
    file: str, lines: Sequence[str], start: int, end: int
) -> tuple[tuple[RasGroup, ...], tuple[RasComm, ...], int]:
    """Groups, communicators named by blocks, and time-outs while RAS collected, of lines start…end-1."""
    groups: dict[int, RasGroup] = {}
    comms: dict[str, _Comm] = {}
    current: _Comm | None = None
    timeouts = 0
    for number in range(start, end):
        text = lines[number]
        line = Line(file, number + 1, text[:2000])
        if row := _ROW.match(text):
            group = _group(row, line)
            groups[group.number] = group
        elif block := _BLOCK.match(text):
            current = comms.setdefault(block["hash"], _Comm(int(block["group"]), line))
            current.shared = None
        elif found := _TIMEOUTS.match(text):
            timeouts += int(found[1])
        elif text and not text[0].isspace():
            current = None
        elif current is not None:
            _take(current, text, line)
    return (
        tuple(groups[n] for n in sorted(groups)),
        tuple(_communicator(ident, comm, groups) for ident, comm in comms.items()),
        timeouts,
    )


def _group(row: re.Match[str], line: Line) -> RasGroup:
    return RasGroup(
        number=int(row["number"]),
        communicators=int(row["comms"]),
        size=int(row["size"]),
        status=row["status"],
        errors=row["errors"],
        line=line,
    )


def _take(comm: _Comm, text: str, line: Line) -> None:
    if counts := _COUNTS.match(text):
        comm.op = "Collective" if counts["op"] == "collective" else counts["op"]
        comm.mismatch = True
        comm.rest.setdefault(comm.op, [])
    elif many := _MANY.match(text):
        comm.rest.setdefault(comm.op or "Collective", []).append(int(many["count"] or 0))
        comm.shared = many
    elif shared := _SHARED.match(text):
        comm.shared = shared
    elif one := _ONE.match(text):
        rank = _known(comm, int(one["rank"]), text, line)
        if one["status"]:
            rank.status = one["status"]
        else:
            rank.launched[comm.op or "Collective"] = int(one["count"] or 0)
    elif error := _ERROR.match(text):
        _known(comm, int(error["rank"]), text, line).error = True
    elif listed := _LISTED.match(text):
        _list(comm, int(listed["rank"]), text, line)
    elif old := _MISSING_OLD.match(text):
        for number in re.findall(r"\d+", old["ranks"]):
            comm.missing[int(number)] = RasMissing(rank=int(number))
    else:
        comm.shared = None


def _list(comm: _Comm, number: int, text: str, line: Line) -> None:
    """A rank that a line on several ranks speaks of; without such a line it is one that did not answer."""
    if comm.shared is None:
        owner = _OWNER.search(text)
        comm.missing[number] = RasMissing(
            rank=number,
            host=owner["host"] if owner else None,
            pid=int(owner["pid"]) if owner else None,
        )
        return
    rank, said = _known(comm, number, text, line), comm.shared.groupdict()
    if "count" in said:
        op, count = comm.op or "Collective", int(said["count"] or 0)
        rank.launched[op] = count
        comm.rest[op] = [other for other in comm.rest.get(op, []) if other != count]
    elif said["status"]:
        rank.status = said["status"]
    else:
        rank.error = True


def _known(comm: _Comm, number: int, text: str, line: Line) -> _Rank:
    rank = comm.ranks.setdefault(number, _Rank(line=line))
    if owner := _OWNER.search(text):
        rank.host, rank.pid, rank.device = owner["host"], int(owner["pid"]), int(owner["gpu"])
    return rank


def _communicator(ident: str, comm: _Comm, groups: dict[int, RasGroup]) -> RasComm:
    """Ranks that no line lists have the count of the only "N ranks have …" line of their operation."""
    group = groups.get(comm.group)
    size = group.size if group else max((*comm.ranks, *comm.missing), default=-1) + 1
    status = group.status if group else ""
    for op, counts in comm.rest.items():
        if len(counts) != 1:
            continue
        for rank in range(min(size, 1 << 20)):
            if rank not in comm.missing:
                comm.ranks.setdefault(rank, _Rank(line=comm.line)).launched.setdefault(
                    op, counts[0]
                )
    return RasComm(
        id="0x" + ident.lstrip("0"),
        size=size,
        ranks=tuple(_rank(number, comm.ranks[number], status) for number in sorted(comm.ranks)),
        missing=tuple(comm.missing[number] for number in sorted(comm.missing)),
        line=comm.line,
        mismatch=comm.mismatch,
    )


def _rank(number: int, rank: _Rank, status: str) -> RasRank:
    own = rank.status or status
    return RasRank(
        rank=number,
        host=rank.host,
        pid=rank.pid,
        device=rank.device,
        launched=rank.launched,
        init_state=7 if own == "INIT" else 0,
        async_error=1 if rank.error else 0,
        finalizing=own == "FINALIZE",
        aborting=own == "ABORT",
        line=rank.line,
    )
