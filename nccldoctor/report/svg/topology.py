"""One host inside: GPUs, switches, processors and network cards, with the links that join them."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from nccldoctor.report.svg.canvas import clipped, element, picture, title

_LAYERS = ("NVS", "GPU", "PCI", "CPU", "NIC", "NET", "GIN")
_NVLINK = ("NV", "XGMI")
_MOST_NODES, _MOST_LABELS = 48, 14
_NOWHERE = re.compile(r"-f{8,16}$")
"""NCCL's number -1 of a processor on a machine that tells no NUMA node."""


def topology(shape: Mapping[str, Any], facts: Mapping[str, Any]) -> Markup | None:
    """The picture of one shape of a host, None where there is too little or too much to draw.

    Ranks and channels are those of the first host of that shape.
    """
    nodes, links = shape["nodes"], shape["links"]
    if not 2 <= len(nodes) <= _MOST_NODES:
        return None
    places, width, height = _places(nodes) if shape["origin"] == "NCCL" else _circle(nodes)
    slow = _slow(links)
    lines = [_link(link, places, index in slow, len(links)) for index, link in enumerate(links)]
    ranks = _ranks(shape)
    rings = [_ring(edge, ranks, places, links) for edge in facts["edges"]]
    trees = [_tree(edge, ranks, places) for edge in facts["trees"]]
    boxes = [_node(node, places[node["id"]], ranks) for node in nodes]
    label = f"Links inside {', '.join(shape['hosts'][:3])}: " + _told(nodes, links, len(slow))
    return picture(width, height, label, [*filter(None, [*lines, *rings, *trees]), *boxes])


def _places(nodes: Sequence[Mapping[str, Any]]) -> tuple[dict[str, tuple[float, float]], int, int]:
    layers: dict[str, list[str]] = {}
    for node in nodes:
        kind = node["kind"] if node["kind"] in _LAYERS else "PCI"
        layers.setdefault(kind, []).append(node["id"])
    used = [layers[kind] for kind in _LAYERS if kind in layers]
    width = max(360, max(len(layer) for layer in used) * 104)
    places = {}
    for row, layer in enumerate(used):
        step = width / len(layer)
        for column, name in enumerate(layer):
            places[name] = (step * (column + 0.5), 28.0 + row * 84)
    return places, width, 56 + (len(used) - 1) * 84


def _circle(nodes: Sequence[Mapping[str, Any]]) -> tuple[dict[str, tuple[float, float]], int, int]:
    radius = max(90.0, len(nodes) * 17.0)
    size = int(2 * radius + 110)
    places = {}
    for index, node in enumerate(nodes):
        angle = 2 * math.pi * index / len(nodes) - math.pi / 2
        places[node["id"]] = (
            size / 2 + radius * math.cos(angle),
            size / 2 + radius * math.sin(angle),
        )
    return places, size, size


def _slow(links: Sequence[Mapping[str, Any]]) -> set[int]:
    """Links of a kind that are slower than the fastest of the same kind between the same kinds of nodes."""
    best: dict[tuple[str, ...], float] = {}
    for link in links:
        speed = _speed(link)
        key = _family(link)
        best[key] = max(best.get(key, 0.0), speed)
    return {i for i, link in enumerate(links) if _speed(link) < 0.9 * best[_family(link)]}


def _family(link: Mapping[str, Any]) -> tuple[str, ...]:
    ends = sorted(link[end].rstrip("0123456789").partition("/")[0] for end in ("a", "b"))
    return (link["kind"].rstrip("0123456789"), *ends)


def _speed(link: Mapping[str, Any]) -> float:
    """GB/s, else the number of NVLinks, else 1."""
    return float(link["gbytes_per_second"] or link["count"] or 1)


def _link(
    link: Mapping[str, Any], places: Mapping[str, tuple[float, float]], slow: bool, crowd: int
) -> Markup | None:
    if link["a"] not in places or link["b"] not in places or link["kind"] == "X":
        return None
    (x1, y1), (x2, y2) = places[link["a"]], places[link["b"]]
    speed = link["gbytes_per_second"]
    rate = "" if link["count"] is None else f" × {link['count']}"
    rate += "" if speed is None else f" {speed:g} GB/s"
    words = f"{link['a']} – {link['b']}: {link['kind']}{rate}" + (
        " · slower than its siblings" * slow
    )
    nvlink = link["kind"].startswith(_NVLINK)
    kind = "slow" if slow else "nvlink" if nvlink else "pcie"
    line = element("line", title(words), x1=x1, y1=y1, x2=x2, y2=y2, class_=f"link {kind}")
    if not slow and not (nvlink and rate and crowd <= _MOST_LABELS):
        return line
    sign, kind = ("⚠", "num slowly") if slow else ("", "num")
    middle = ((x1 + x2) / 2, (y1 + y2) / 2 + 4)
    return line + element(
        "text", (sign + rate).strip() or sign, x=middle[0], y=middle[1], class_=f"{kind} speed"
    )


def _ranks(shape: Mapping[str, Any]) -> dict[int, str]:
    """Rank → GPU, for the first host of this shape."""
    return {
        node["ranks"][0]: node["id"]
        for node in shape["nodes"]
        if node["kind"] == "GPU" and node["ranks"] and node["ranks"][0] is not None
    }


def _ring(
    edge: Mapping[str, Any],
    ranks: Mapping[int, str],
    places: Mapping[str, tuple[float, float]],
    links: Sequence[Mapping[str, Any]],
) -> Markup | None:
    """A channel of a ring from GPU to GPU, or of anything that makes a detour: when NVLink joins both and yet it goes another way."""
    a, b = ranks.get(edge["from"]), ranks.get(edge["to"])
    if a is None or b is None or a == b:
        return None
    linked = {link[end] for link in links if link["kind"].startswith(_NVLINK) for end in ("a", "b")}
    detour = edge["transport"] != "P2P" and a in linked and b in linked
    if not edge["ring"] and not detour:
        return None
    (x1, y1), (x2, y2) = places[a], places[b]
    bend = 0.28 if edge["from"] < edge["to"] else 0.16
    cx, cy = (x1 + x2) / 2 - (y2 - y1) * bend, (y1 + y2) / 2 + abs(x2 - x1) * bend
    words = (
        f"rank {edge['from']} → rank {edge['to']}: {edge['channels']} channels via "
        f"{edge['transport']} {edge['detail']}".strip()
        + " · although NVLink joins them" * detour
    )
    return element(
        "path",
        title(words),
        d=f"M{x1:.0f} {y1:.0f}Q{cx:.0f} {cy:.0f} {x2:.0f} {y2:.0f}",
        class_="ring detour" if detour else "ring",
    )


def _tree(
    edge: Mapping[str, Any], ranks: Mapping[int, str], places: Mapping[str, tuple[float, float]]
) -> Markup | None:
    """A parent and its child in NCCL's trees, bent away from the rings; the dot is at the child."""
    a, b = ranks.get(edge["parent"]), ranks.get(edge["child"])
    if a is None or b is None or a == b:
        return None
    (x1, y1), (x2, y2) = places[a], places[b]
    bend = -0.2 if edge["parent"] < edge["child"] else -0.3
    cx, cy = (x1 + x2) / 2 - (y2 - y1) * bend, (y1 + y2) / 2 + abs(x2 - x1) * bend
    words = (
        f"trees: rank {edge['child']} below rank {edge['parent']} in {edge['channels']} channels"
    )
    return element(
        "path",
        title(words),
        d=f"M{x1:.0f} {y1:.0f}Q{cx:.0f} {cy:.0f} {x2:.0f} {y2:.0f}",
        class_="tree",
    )


def _node(node: Mapping[str, Any], place: tuple[float, float], ranks: Mapping[int, str]) -> Markup:
    x, y = place
    here = sorted(rank for rank, name in ranks.items() if name == node["id"])
    words = clipped(_NOWHERE.sub("", node["id"]), 13) + (f" · r{here[0]}" if here else "")
    return element(
        "g",
        title(node["id"] + (f", rank {here[0]}" if here else ""))
        + element("rect", x=x - 48, y=y - 15, width=96, height=30, rx=5)
        + element("text", words, x=x, y=y + 4, class_="num"),
        class_=f"node {node['kind'].lower() if node['kind'] in _LAYERS else 'pci'}",
    )


def _told(nodes: Sequence[Mapping[str, Any]], links: Sequence[Mapping[str, Any]], slow: int) -> str:
    gpus = sum(node["kind"] == "GPU" for node in nodes)
    nvlinks = sum(link["kind"].startswith(_NVLINK) for link in links)
    return f"{gpus} GPUs, {nvlinks} NVLink connections of {len(links)}, {slow} slower than siblings"
