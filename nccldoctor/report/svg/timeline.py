"""What happened when: one lane a host, one mark an event, quiet stretches cut short."""

import itertools
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup

from nccldoctor.report.svg.canvas import clipped, element, picture, title
from nccldoctor.report.words import naturally, ranks_said

_WIDTH, _LEFT, _LANE, _MOST_HOSTS = 960, 150, 26, 24
_SHAPES = {
    "error": "M0 -7L7 6H-7Z",
    "warning": "M0 -7L6 0L0 7L-6 0Z",
    "init": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0",
    "end": "M-5 -5H5V5H-5Z",
    "note": "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0",
}
_LONGEST_QUIET = 0.25


def timeline(events: Sequence[Mapping[str, Any]], blamed: Sequence[str] = ()) -> Markup | None:
    """The picture, or None with fewer than two moments. The hosts that are `blamed` are always in it."""
    events = [e for e in events if e["file"]]
    moments = sorted({datetime.fromisoformat(e["time"]).timestamp() for e in events})
    if len(moments) < 2:
        return None
    hosts = _hosts(events, blamed)
    place = _scale(moments)
    height = len(hosts) * _LANE + 40
    parts = []
    for row, host in enumerate(hosts):
        y = 20 + row * _LANE
        parts.append(element("line", x1=_LEFT, y1=y, x2=_WIDTH - 10, y2=y, class_="axis"))
        parts.append(
            element("text", clipped(host or "host unknown", 19), x=0, y=y + 4, class_="label")
        )
    for event in sorted(events, key=lambda e: e["tone"] == "error"):
        host = event["host"] or ""
        if host in hosts:
            x = place[datetime.fromisoformat(event["time"]).timestamp()]
            parts.append(_mark(event, x, 20 + hosts.index(host) * _LANE))
    bottom = height - 8
    first, last = events[0]["time"], events[-1]["time"]
    parts.append(element("text", _clock(first), x=_LEFT, y=bottom, class_="label"))
    parts.append(
        element("text", _clock(last), x=_WIDTH - 10, y=bottom, text_anchor="end", class_="label")
    )
    label = f"{len(events)} events on {len(hosts)} hosts from {_clock(first)} to {_clock(last)}"
    return picture(_WIDTH, height, label, parts)


def _hosts(events: Sequence[Mapping[str, Any]], blamed: Sequence[str]) -> list[str]:
    """The hosts to show: all, or the blamed ones and those with the first errors when there are too many."""
    seen = sorted({e["host"] or "" for e in events}, key=naturally)
    if len(seen) <= _MOST_HOSTS:
        return seen
    loud = [e["host"] or "" for e in events if e["tone"] == "error"]
    worth = dict.fromkeys([*(h for h in blamed if h in seen), *loud, *seen])
    return sorted(list(worth)[:_MOST_HOSTS], key=naturally)


def _scale(moments: Sequence[float]) -> dict[float, float]:
    """Moment → x. A gap takes no more than a quarter of the width, so that busy moments stay readable."""
    whole = moments[-1] - moments[0]
    gaps = [b - a for a, b in itertools.pairwise(moments)]
    longest = whole * _LONGEST_QUIET
    shown = [min(gap, longest) for gap in gaps]
    unit = (_WIDTH - _LEFT - 30) / (sum(shown) or 1.0)
    x = float(_LEFT + 10)
    result = {moments[0]: x}
    for moment, gap in zip(moments[1:], shown, strict=True):
        x += gap * unit
        result[moment] = x
    return result


def _mark(event: Mapping[str, Any], x: float, y: float) -> Markup:
    who = ranks_said(event["ranks"])
    words = f"{_clock(event['time'])} {event['host'] or ''} {who}: {event['what']}"
    return element(
        "path",
        title(" ".join(words.split())),
        d=_SHAPES[event["tone"]],
        transform=f"translate({x:.1f} {y})",
        class_=f"event {event['tone']}",
    )


def _clock(time: str) -> str:
    return time.replace("T", " ")[:19] + " UTC"
