"""One host inside: GPUs, switches, processors and network cards, with the links that join them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from nccldoctor.report.svg.canvas import clipped, element, picture, title

_LAYERS = ("NVS", "GPU", "PCI", "CPU", "NIC", "NET", "GIN")
_NVLINK = ("NVL", "NV", "XGMI")
_MOST_NODES = 48


def topology(shape: Mapping[str, Any]) -> Markup | None:
    """The picture of one shape of a host, None where there is too little or too much to draw."""
    nodes, links = shape["nodes"], shape["links"]
    if not 2 <= len(nodes) <= _MOST_NODES:
        return None
    places, width, height = _places(nodes) if shape["origin"] == "NCCL" else _circle(nodes)
    slow = _slow(links)
    lines = [_link(link, places, index in slow) for index, link in enumerate(links)]
    boxes = [_node(node, places[node["id"]]) for node in nodes]
    label = f"Links inside {', '.join(shape['hosts'][:3])}: " + _told(nodes, links, len(slow))
    return picture(width, height, label, [*filter(None, lines), *boxes])


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
        speed = link["gbytes_per_second"] or _count(link["kind"])
        key = _family(link)
        best[key] = max(best.get(key, 0.0), speed)
    return {
        i
        for i, link in enumerate(links)
        if (link["gbytes_per_second"] or _count(link["kind"])) < 0.9 * best[_family(link)]
    }


def _family(link: Mapping[str, Any]) -> tuple[str, ...]:
    ends = sorted(link[end].rstrip("0123456789").partition("/")[0] for end in ("a", "b"))
    return (link["kind"].rstrip("0123456789"), *ends)


def _count(kind: str) -> float:
    digits = kind.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    return float(digits) if digits.isdecimal() and kind.startswith("NV") else 1.0


def _link(
    link: Mapping[str, Any], places: Mapping[str, tuple[float, float]], slow: bool
) -> Markup | None:
    if link["a"] not in places or link["b"] not in places or link["kind"] == "X":
        return None
    (x1, y1), (x2, y2) = places[link["a"]], places[link["b"]]
    speed = link["gbytes_per_second"]
    rate = "" if speed is None else f" {speed:g} GB/s"
    words = f"{link['a']} – {link['b']}: {link['kind']}{rate}" + (
        " · slower than its siblings" * slow
    )
    nvlink = link["kind"].startswith(_NVLINK)
    kind = "slow" if slow else "nvlink" if nvlink else "pcie"
    line = element("line", title(words), x1=x1, y1=y1, x2=x2, y2=y2, class_=f"link {kind}")
    if not slow:
        return line
    return line + element(
        "text",
        f"⚠{rate or ' ' + link['kind']}",
        x=(x1 + x2) / 2,
        y=(y1 + y2) / 2,
        class_="num slowly",
    )


def _node(node: Mapping[str, Any], place: tuple[float, float]) -> Markup:
    x, y = place
    return element(
        "g",
        title(node["id"])
        + element("rect", x=x - 46, y=y - 15, width=92, height=30, rx=5)
        + element("text", clipped(node["id"], 13), x=x, y=y + 4, class_="num"),
        class_=f"node {node['kind'].lower() if node['kind'] in _LAYERS else 'pci'}",
    )


def _told(nodes: Sequence[Mapping[str, Any]], links: Sequence[Mapping[str, Any]], slow: int) -> str:
    gpus = sum(node["kind"] == "GPU" for node in nodes)
    nvlinks = sum(link["kind"].startswith(_NVLINK) for link in links)
    return f"{gpus} GPUs, {nvlinks} NVLink connections of {len(links)}, {slow} slower than siblings"
