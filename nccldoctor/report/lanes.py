"""Communicators as lanes: ranks that did the same share a row, and the odd row comes first."""

from collections.abc import Mapping, Sequence
from typing import Any

from nccldoctor.report.words import plural

_COLUMNS, _ROWS = 8, 12


def communicators(facts: Mapping[str, Any], blamed: Sequence[int]) -> list[dict[str, Any]]:
    """Every communicator with its rows; those whose ranks part ways first, then the wide ones.

    `blamed` are the global ranks of the verdict.
    """
    entries = [_entry(c, frozenset(blamed)) for c in facts["communicators"]]
    return sorted(entries, key=lambda e: (not e["uneven"], -e["size"], e["name"], e["id"]))


def _entry(communicator: Mapping[str, Any], blamed: frozenset[int]) -> dict[str, Any]:
    rows = _rows(communicator, blamed)
    parting = communicator["divergence"]
    last = max((row["issued"] for row in rows), default=0)
    columns = _columns(communicator, last)
    for row in rows:
        row["cells"] = [_cell(row, ordinal) for ordinal in columns]
    stages = communicator["stages"]
    return {
        **{k: communicator[k] for k in ("id", "name", "size", "parent", "group", "network")},
        "channels": communicator["channels"],
        "facts": _facts(communicator),
        "rows": rows[:_ROWS],
        "more_rows": max(0, len(rows) - _ROWS),
        "columns": columns,
        "last": last,
        "stages": _by_rank(communicator, stages) if len(stages) > 1 else {},
        "parting": parting and {**parting, "calls": _by_rank(communicator, parting["calls"])},
        "uneven": bool(parting) or len({row["issued"] for row in rows}) > 1 or len(stages) > 1,
        "local": None in communicator["ranks"],
    }


def _facts(communicator: Mapping[str, Any]) -> list[str]:
    """What stands behind the name, of what the name does not tell."""
    name, size, channels = (communicator[key] for key in ("name", "size", "channels"))
    group = communicator["group"]
    told = [
        "" if f"{size} ranks" in name else plural(size, "rank"),
        communicator["network"] or "",
        plural(channels, "channel") if channels else "",
        f"group {group}" if group and group != name else "",
    ]
    return [part for part in told if part]


def _shown(communicator: Mapping[str, Any], ranks: Sequence[int]) -> list[int]:
    """Global ranks where all of the communicator's are known, else ranks inside it."""
    known = communicator["ranks"]
    return list(ranks) if None in known else [known[r] for r in ranks if r < len(known)]


def _by_rank(
    communicator: Mapping[str, Any], values: Mapping[str, Sequence[int]]
) -> dict[str, list[int]]:
    return {value: _shown(communicator, ranks) for value, ranks in values.items()}


def _rows(communicator: Mapping[str, Any], blamed: frozenset[int]) -> list[dict[str, Any]]:
    """Rows of ranks with the same calls, the odd ones first."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    kept: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for rank, progress in communicator["calls"].items():
        recent = tuple(progress["recent"]) or (progress["last"],)
        key = (progress["origin"], progress["issued"], progress["completed"], recent)
        alike.setdefault(key, []).append(int(rank))
        kept[key] = progress
    furthest = max((p["issued"] for p in kept.values()), default=0)
    most = max((len(ranks) for ranks in alike.values()), default=0)
    rows = []
    for key, ranks in alike.items():
        progress = kept[key]
        shown = _shown(communicator, ranks)
        rows.append(
            {
                "ranks": ranks,
                "shown": shown,
                "issued": progress["issued"],
                "completed": progress["completed"],
                "origin": progress["origin"],
                "recent": progress["recent"] or ([progress["last"]] if progress["last"] else []),
                "first": progress["first_recent"] if progress["recent"] else progress["issued"],
                "behind": progress["issued"] < furthest,
                "odd": len(alike) > 1 and (not blamed.isdisjoint(shown) or len(ranks) < most),
                "also": progress["also"],
                "by_op": progress["by_op"],
            }
        )
    return sorted(rows, key=lambda r: (not r["odd"], r["issued"], r["ranks"]))


def _columns(communicator: Mapping[str, Any], last: int) -> list[int]:
    """The ordinals to show: around the parting where there is one, else the last ones.

    Where a rank stopped long before the others, both places: its last calls and theirs.
    """
    progress = communicator["calls"].values()
    least = min((p["issued"] for p in progress), default=last)
    if last - least >= _COLUMNS - 2:
        return [n for n in (*range(least - 2, least + 2), *range(last - 2, last + 1)) if n > 0]
    first = min((p["first_recent"] for p in progress if p["recent"]), default=last)
    parting = communicator["divergence"]
    if parting and parting["ordinal"] + 2 < last:
        last = parting["ordinal"] + 2
    return list(range(max(1, first, last - _COLUMNS + 1), last + 1)) if last else []


def _cell(row: Mapping[str, Any], ordinal: int) -> dict[str, Any]:
    index = ordinal - row["first"]
    if 0 <= index < len(row["recent"]):
        call = row["recent"][index]
        done = row["completed"]
        state = "called" if done is None else "running" if ordinal > done else "done"
        if ordinal <= row["issued"]:
            return {"call": call, "op": call.partition("(")[0].strip(), "state": state}
    if ordinal > row["issued"]:
        return {"call": "not called", "op": "not called", "state": "missing"}
    return {"call": "called; what is not in the evidence", "op": "called", "state": "dark"}
