"""The rank grid: one cell a rank, in the box of its host, marked by shape and colour for how it stands."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from nccldoctor.report.standing import STATES, Standing
from nccldoctor.report.svg.canvas import clipped, element, picture, title

_WIDTH = 960
_MARKS = {
    "ok": "",
    "bad": "M{a} {t}L{b} {e}M{b} {t}L{a} {e}",
    "hit": "M{a} {m}H{b}",
    "warn": "M{x} {t}V{m}M{x} {e}v-2",
    "silent": "",
}


def rank_grid(
    facts: Mapping[str, Any], standing: Mapping[int, Standing], name: str = "cell"
) -> Markup | None:
    """The grid, or None when no rank has a number; `name` keeps several grids of one page apart."""
    boxes = _boxes(facts)
    total = sum(len(ranks) for _, ranks in boxes)
    if not total:
        return None
    cell = 34 if total <= 64 else 20 if total <= 512 else 14
    widest = max(len(ranks) for _, ranks in boxes)
    columns = min(widest, 8 if widest <= 64 else 32)
    box_width = max(columns * cell + 8, 84 if total > 64 else 120)
    per_row = max(1, min(len(boxes), int((_WIDTH + 10) // (box_width + 10))))
    parts: list[Markup] = [_symbols(cell, name)]
    y = 0.0
    for start in range(0, len(boxes), per_row):
        row = boxes[start : start + per_row]
        height = max(-(-len(ranks) // columns) for _, ranks in row) * cell + 26
        for place, (host, ranks) in enumerate(row):
            x = place * (box_width + 10)
            parts.append(
                _box(host, ranks, standing, (x, y, box_width, height), cell, columns, name)
            )
        y += height + 10
    width = per_row * (box_width + 10) - 10
    states = ", ".join(f"{n} {words}" for words, n in _tally(standing))
    return picture(width, y, f"Ranks by host: {states}", parts)


def _boxes(facts: Mapping[str, Any]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    by_host: dict[str, list[Mapping[str, Any]]] = {}
    for entry in facts["ranks"]:
        if entry["rank"] is not None:
            by_host.setdefault(entry["host"] or "", []).append(entry)
    return sorted(by_host.items(), key=lambda item: (not item[0], item[1][0]["rank"]))


def _symbols(cell: int, name: str) -> Markup:
    """One shape a state; in large cells the mark leaves room for the rank's number below."""
    size = 14 if cell >= 34 else cell - 10
    left, top = (cell - 2 - size) / 2, 4
    middle = {"x": (cell - 2) / 2, "m": top + size / 2}
    place = {"a": left, "b": left + size, "t": top, "e": top + size, **middle}
    shapes = [
        element(
            "g",
            element("rect", width=cell - 2, height=cell - 2, rx=3, class_="cell")
            + element("path", d=mark.format(**place), class_="mark" if mark else None),
            id=f"{name}-{state}",
            class_=f"is-{state}",
        )
        for state, mark in _MARKS.items()
    ]
    return element("defs", Markup("").join(shapes))


def _box(
    host: str,
    ranks: list[Mapping[str, Any]],
    standing: Mapping[int, Standing],
    place: tuple[float, float, float, float],
    cell: int,
    columns: int,
    name: str,
) -> Markup:
    x, y, width, height = place
    parts = [
        element("rect", width=width, height=height, rx=5, class_="box"),
        element(
            "text", clipped(host or "host unknown", int(width // 7)), x=6, y=14, class_="label"
        ),
    ]
    for number, entry in enumerate(ranks):
        left, top = 4 + number % columns * cell, 20 + number // columns * cell
        own = standing[entry["rank"]]
        parts.append(
            element(
                "use",
                title(_told(entry, own)),
                href=f"#{name}-{own.state}",
                x=left,
                y=top,
                data_rank=entry["rank"],
            )
        )
        if cell >= 34:
            parts.append(
                element(
                    "text",
                    str(entry["rank"]),
                    x=left + cell / 2 - 1,
                    y=top + cell - 5,
                    class_="num",
                )
            )
    return element("g", Markup("").join(parts), transform=f"translate({x} {y})")


def _told(entry: Mapping[str, Any], standing: Standing) -> str:
    words = [f"rank {entry['rank']}: {STATES[standing.state]}"]
    words += [standing.code] if standing.code else []
    words += [str(entry["host"])] if entry["host"] else []
    words += [f"GPU {entry['gpu']}"] if entry["gpu"] is not None else []
    words += [f"PID {entry['pid']}"] if entry["pid"] is not None else []
    words += [str(entry["last_stage"])] if entry["last_stage"] else []
    return " · ".join(words)


def _tally(standing: Mapping[int, Standing]) -> list[tuple[str, int]]:
    return [
        (words, n)
        for state, words in STATES.items()
        if (n := sum(s.state == state for s in standing.values()))
    ]
