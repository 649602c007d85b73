"""What each pair of ranks reaches between them: a matrix, with the pairs marked that fall behind the others."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from markupsafe import Markup

from nccldoctor.report.svg.canvas import element, picture, title

_CELL, _LEFT, _TOP, _MOST = 44, 40, 24, 64
_SLOW = 0.6
"""A pair is marked when it reaches less than this part of the median pair; PERF01 judges by the same."""


def pair_matrix(pairs: Sequence[Mapping[str, Any]]) -> Markup | None:
    """The matrix, or None for fewer than two pairs or very many ranks."""
    ranks = sorted({p[end] for p in pairs for end in ("a", "b")})
    if len(pairs) < 2 or len(ranks) > _MOST:
        return None
    usual = median(p["gbytes_per_second"] for p in pairs)
    place = {rank: n for n, rank in enumerate(ranks)}
    parts: list[Markup] = []
    for rank, n in place.items():
        middle = n * _CELL + _CELL / 2
        parts.append(element("text", str(rank), x=_LEFT + middle, y=_TOP - 8, class_="num label"))
        parts.append(
            element("text", str(rank), x=_LEFT / 2, y=_TOP + middle + 4, class_="num label")
        )
    slow = 0
    for pair in pairs:
        behind = pair["gbytes_per_second"] < _SLOW * usual
        slow += behind
        for row, column in ((pair["a"], pair["b"]), (pair["b"], pair["a"])):
            parts.append(_cell(pair, place[row], place[column], behind))
    side = len(ranks) * _CELL
    label = f"Bandwidth between {len(ranks)} ranks, {usual:.4g} GB/s in the median; {slow} pairs far behind"
    return picture(_LEFT + side + 4, _TOP + side + 4, label, parts)


def _cell(pair: Mapping[str, Any], row: int, column: int, behind: bool) -> Markup:
    speed = pair["gbytes_per_second"]
    words = (
        f"ranks {pair['a']} and {pair['b']}: {speed:.4g} GB/s" + " · far behind the others" * behind
    )
    x, y = _LEFT + column * _CELL, _TOP + row * _CELL
    return element(
        "g",
        title(words)
        + element("rect", x=x, y=y, width=_CELL - 2, height=_CELL - 2, rx=3, class_="cell")
        + element(
            "text",
            f"{'!' * behind}{speed:.3g}",
            x=x + _CELL / 2 - 1,
            y=y + _CELL / 2 + 3,
            class_="num",
        ),
        class_="is-hit" if behind else "is-ok",
    )
