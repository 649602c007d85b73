"""Bandwidth over message size, beside what the links should give."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from nccldoctor.report.svg.canvas import clipped, element, picture, title
from nccldoctor.report.words import size

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 760, 300, 60, 40
_MOST, _COLOURS = 10, 6
_DASHES = (None, "8 4", "2 3", "10 3 2 3", "4 4", "1 4")


def curves(bandwidth: Sequence[Mapping[str, Any]]) -> Markup | None:
    """The chart, or None without a curve of two points above zero. The dotted line is what the links should give."""
    shown = [c for c in bandwidth if len({p[0] for p in c["points"] if p[0] > 0 < p[1]}) > 1][
        :_MOST
    ]
    if not shown:
        return None
    points = [p for c in shown for p in c["points"] if p[0] > 0]
    due = _expected(shown)
    top = _round(max([p[1] for p in points] + [v for line in due.values() for _, v in line]))
    low, high = (math.log2(f(p[0] for p in points)) for f in (min, max))

    def x(size_bytes: float) -> float:
        return _LEFT + (math.log2(size_bytes) - low) / (high - low) * (_WIDTH - _LEFT - 20)

    def y(speed: float) -> float:
        return _HEIGHT - _BOTTOM - speed / top * (_HEIGHT - _BOTTOM - 20)

    parts = _axes(x, y, low, high, top)
    for op, line in due.items():
        words = f"{op}: expected {line[-1][1]:.4g} GB/s"
        path = "M" + "L".join(f"{x(s):.1f} {y(v):.1f}" for s, v in line)
        parts.append(element("path", title(words), d=path, class_="expected"))
    for number, curve in enumerate(shown):
        parts += _curve(curve, number, x, y, f"{_name(curve, shown)}: {_reached(curve)}")
    if due:
        parts += _key(_HEIGHT + 16 * len(shown), "what the links should give", "expected")
    best = max(p[1] for p in points)
    label = f"Bus bandwidth over message size, up to {best:.4g} GB/s"
    return picture(_WIDTH, _HEIGHT + 16 * (len(shown) + bool(due)), label, parts)


def _round(speed: float) -> float:
    """The least number not below `speed` whose quarters are easy to read."""
    if speed <= 0:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(speed))
    return next(
        n * scale for n in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if n * scale >= speed * 0.999
    )


def _expected(shown: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """Operation → (size, GB/s expected), from the sizes for which something can be said."""
    due: dict[str, dict[float, float]] = {}
    for curve in shown:
        for size_bytes, _, value in curve["points"]:
            if value is not None and size_bytes > 0:
                due.setdefault(curve["op"], {})[size_bytes] = value
    return {op: sorted(line.items()) for op, line in due.items() if len(line) > 1}


def _name(curve: Mapping[str, Any], shown: Sequence[Mapping[str, Any]]) -> str:
    """The operation, with what tells it from the other curves of that operation."""
    told = [curve["op"], curve["variant"], curve["origin"]]
    told += [curve["group"]] if curve["group"] != "world" else []
    told += [f"{curve['ranks']} ranks"] if curve["ranks"] else []
    if sum(c["op"] == curve["op"] for c in shown) > 1:
        told.append(curve["file"].rpartition("/")[2])
    return ", ".join(part for part in told if part)


def _reached(curve: Mapping[str, Any]) -> str:
    """What the largest message reached, and what it should have."""
    bytes_, speed, due = max((p for p in curve["points"] if p[0] > 0), key=lambda p: p[0])
    wanted = f" of {due:.4g} expected" if due is not None else ""
    return f"{speed:.4g} GB/s{wanted} at {size(bytes_)}"


def _key(level: float, words: str, line: str, dashes: str | None = None) -> list[Markup]:
    """A line of the legend."""
    return [
        element(
            "line",
            x1=_LEFT,
            y1=level,
            x2=_LEFT + 30,
            y2=level,
            class_=line,
            stroke_dasharray=dashes,
        ),
        element("text", clipped(words, 100), x=_LEFT + 38, y=level + 4, class_="label"),
    ]


def _axes(x: Any, y: Any, low: float, high: float, top: float) -> list[Markup]:
    parts = []
    for step in range(5):
        speed = top * step / 4
        parts.append(
            element("line", x1=_LEFT, y1=y(speed), x2=_WIDTH - 20, y2=y(speed), class_="axis")
        )
        parts.append(
            element(
                "text",
                f"{speed:.3g}",
                x=_LEFT - 6,
                y=y(speed) + 4,
                text_anchor="end",
                class_="label",
            )
        )
    stride = max(1, round((high - low) / 7))
    for power in range(math.ceil(low), math.floor(high) + 1, stride):
        parts.append(
            element(
                "text", size(2.0**power), x=x(2.0**power), y=_HEIGHT - _BOTTOM + 16, class_="num"
            )
        )
    parts.append(element("text", "bus GB/s", x=_LEFT + 4, y=12, class_="label"))
    return parts


def _curve(curve: Mapping[str, Any], number: int, x: Any, y: Any, words: str) -> list[Markup]:
    points = [p for p in curve["points"] if p[0] > 0]
    path = "M" + "L".join(f"{x(s):.1f} {y(v):.1f}" for s, v, _ in points)
    colour = f"s{number % _COLOURS}"
    line = f"series {colour}"
    dashes = _DASHES[(number + number // _COLOURS) % len(_DASHES)]
    return [
        element("path", title(words), d=path, class_=line, stroke_dasharray=dashes),
        *[
            element(
                "circle",
                title(f"{words}: {size(s)} → {v:.4g} GB/s"),
                cx=x(s),
                cy=y(v),
                r=4,
                class_=f"dot {colour}",
            )
            for s, v, _ in points
        ],
        *_key(_HEIGHT + 16 * number, words, line, dashes),
    ]
