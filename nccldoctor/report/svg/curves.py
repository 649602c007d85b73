"""Bandwidth over message size, with the line that NCCL itself expects."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from nccldoctor.report.svg.canvas import clipped, element, picture, title
from nccldoctor.report.words import size

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 760, 300, 60, 40
_MOST = 6
_DASHES = (None, "8 4", "2 3", "10 3 2 3", "4 4", "1 4")


def curves(
    bandwidth: Sequence[Mapping[str, Any]], graph: Mapping[str, Any] | None
) -> Markup | None:
    """The chart, or None without a curve of two points."""
    shown = [c for c in bandwidth if len({p[0] for p in c["points"] if p[0] > 0}) > 1][:_MOST]
    if not shown:
        return None
    sizes = [p[0] for c in shown for p in c["points"] if p[0] > 0]
    expected = graph["gbytes_per_second"] if graph else None
    top = max([p[1] for c in shown for p in c["points"]] + ([expected] if expected else [])) or 1.0
    low, high = math.log2(min(sizes)), math.log2(max(sizes))

    def x(size_bytes: float) -> float:
        return _LEFT + (math.log2(size_bytes) - low) / (high - low) * (_WIDTH - _LEFT - 20)

    def y(speed: float) -> float:
        return _HEIGHT - _BOTTOM - speed / top * (_HEIGHT - _BOTTOM - 20)

    parts = _axes(x, y, low, high, top)
    if expected:
        words = f"NCCL's graph: {expected:g} GB/s at most"
        parts.append(
            element(
                "line",
                title(words),
                x1=_LEFT,
                y1=y(expected),
                x2=_WIDTH - 20,
                y2=y(expected),
                class_="expected",
            )
        )
        parts.append(element("text", words, x=_LEFT + 6, y=y(expected) - 4, class_="label"))
    for number, curve in enumerate(shown):
        parts += _curve(curve, number, x, y)
    best = max(p[1] for c in shown for p in c["points"])
    label = f"Bus bandwidth over message size, up to {best:.4g} GB/s"
    return picture(_WIDTH, _HEIGHT + 16 * len(shown), label, parts)


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
    parts.append(element("text", "bus GB/s", x=4, y=12, class_="label"))
    return parts


def _curve(curve: Mapping[str, Any], number: int, x: Any, y: Any) -> list[Markup]:
    points = [p for p in curve["points"] if p[0] > 0]
    path = "M" + "L".join(f"{x(s):.1f} {y(v):.1f}" for s, v in points)
    ranks = f", {curve['ranks']} ranks" if curve["ranks"] else ""
    words = f"{curve['op']} ({curve['origin']}{ranks})"
    line = f"series s{number}"
    level = _HEIGHT + 16 * number
    return [
        element("path", title(words), d=path, class_=line, stroke_dasharray=_DASHES[number]),
        *[
            element(
                "circle",
                title(f"{words}: {size(s)} → {v:.4g} GB/s"),
                cx=x(s),
                cy=y(v),
                r=4,
                class_=f"dot s{number}",
            )
            for s, v in points
        ],
        element(
            "line",
            x1=_LEFT,
            y1=level,
            x2=_LEFT + 30,
            y2=level,
            class_=line,
            stroke_dasharray=_DASHES[number],
        ),
        element("text", clipped(words, 80), x=_LEFT + 38, y=level + 4, class_="label"),
    ]
