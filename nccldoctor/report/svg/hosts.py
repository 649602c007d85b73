"""Between the hosts: which host sends to which, over what, as the channels were connected."""

import math
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from nccldoctor.report.standing import STATES, Standing
from nccldoctor.report.svg.canvas import clipped, element, picture, title

_GRAVITY = list(STATES)
_NAMED = 40


def host_map(facts: Mapping[str, Any], standing: Mapping[int, Standing]) -> Markup | None:
    """Hosts in a circle with their connections; None for fewer than two hosts or without connections."""
    host_of = {e["rank"]: e["host"] for e in facts["ranks"] if e["host"]}
    flows, ringed = _flows(facts, host_of)
    trees = _trees(facts, host_of) - ringed
    hosts = [h["name"] for h in facts["hosts"]]
    if len(hosts) < 2 or not flows:
        return None
    state = {h["name"]: _worst(h["ranks"], standing) for h in facts["hosts"]}
    radius = max(120.0, min(330.0, 30.0 * len(hosts) / math.pi))
    size = max(3.5, min(11.0, 2.4 * radius / len(hosts)))
    width, height = 2 * radius + 260, 2 * radius + 70
    places = _circle(hosts, radius, (width / 2, height / 2))
    named = {h for h in hosts if len(hosts) <= _NAMED or state[h] in ("bad", "silent")}
    lines = [_flow(pair, via, places, state, pair in trees) for pair, via in sorted(flows.items())]
    centre = (width / 2, height / 2)
    dots = [_host(h, places[h], state[h], centre, size, h in named) for h in hosts]
    odd = [h for h in hosts if state[h] == "bad"]
    label = f"{len(hosts)} hosts and {len(flows)} connections between them" + (
        f"; with a rank named as the cause: {', '.join(odd[:4])}" if odd else ""
    )
    return picture(width, height, label, [*lines, *dots])


def _flows(
    facts: Mapping[str, Any], host_of: Mapping[int, str]
) -> tuple[dict[tuple[str, str], dict[str, int]], set[tuple[str, str]]]:
    """Pair of hosts → how it is connected, in channels; and the pairs that are part of a ring."""
    flows: dict[tuple[str, str], dict[str, int]] = {}
    ringed = set()
    for edge in facts["edges"]:
        a, b = host_of.get(edge["from"]), host_of.get(edge["to"])
        if a and b and a != b:
            via = f"{edge['transport']} {edge['detail']}".strip()
            known = flows.setdefault((a, b), {})
            known[via] = known.get(via, 0) + edge["channels"]
            ringed |= {(a, b)} if edge["ring"] else set()
    return flows, ringed


def _trees(facts: Mapping[str, Any], host_of: Mapping[int, str]) -> set[tuple[str, str]]:
    """Pairs of hosts between a parent and a child in NCCL's trees, both ways: data goes up and comes down."""
    pairs = {(host_of.get(e["parent"], ""), host_of.get(e["child"], "")) for e in facts["trees"]}
    return pairs | {(b, a) for a, b in pairs}


def _circle(
    hosts: list[str], radius: float, centre: tuple[float, float]
) -> dict[str, tuple[float, float]]:
    return {
        host: (
            centre[0] + radius * math.sin(2 * math.pi * n / len(hosts)),
            centre[1] - radius * math.cos(2 * math.pi * n / len(hosts)),
        )
        for n, host in enumerate(hosts)
    }


def _worst(ranks: list[int], standing: Mapping[int, Standing]) -> str:
    states = [standing[r].state for r in ranks if r in standing]
    return min(states, key=_GRAVITY.index, default="ok")


def _flow(
    pair: tuple[str, str],
    via: Mapping[str, int],
    places: Mapping[str, tuple[float, float]],
    state: Mapping[str, str],
    tree: bool,
) -> Markup:
    (x1, y1), (x2, y2) = places[pair[0]], places[pair[1]]
    channels = ", ".join(f"{n} × {name}" for name, n in sorted(via.items()))
    broken = "bad" in (state[pair[0]], state[pair[1]])
    bend = 0.12
    cx, cy = (x1 + x2) / 2 + (y2 - y1) * bend, (y1 + y2) / 2 - (x2 - x1) * bend
    return element(
        "path",
        title(
            f"{pair[0]} → {pair[1]}: {channels}"
            + " · in trees only" * tree
            + " · touches the cause" * broken
        ),
        d=f"M{x1:.0f} {y1:.0f}Q{cx:.0f} {cy:.0f} {x2:.0f} {y2:.0f}",
        class_="flow touched" if broken else "flow tree" if tree else "flow",
        stroke_width=min(5.0, 1 + math.log2(sum(via.values()))),
    )


def _host(
    host: str,
    place: tuple[float, float],
    state: str,
    centre: tuple[float, float],
    size: float,
    named: bool,
) -> Markup:
    (x, y), (cx, cy) = place, centre
    mark = {"bad": "✕", "silent": "?", "hit": "–", "warn": "!"}.get(state, "")
    loud = state in ("bad", "silent")
    size = max(size, 8.0) if loud else size
    parts = title(f"{host}: {STATES[state]}") + element("circle", cx=x, cy=y, r=size, class_="cell")
    if mark and size >= 8:
        parts += element("text", mark, x=x, y=y + 4, class_="num sign")
    if named:
        far = 1 + (size + 8) / math.hypot(x - cx, y - cy)
        flat = abs(x - cx) < 0.2 * abs(y - cy)
        parts += element(
            "text",
            clipped(host, 18),
            x=cx + (x - cx) * far,
            y=cy + (y - cy) * far + 4,
            text_anchor="middle" if flat else "end" if x < cx else "start",
            class_="label",
        )
    return element("g", parts, class_=f"is-{state}")
