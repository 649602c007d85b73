"""A link matrix as a picture of its own: one SVG file that needs no page around it."""

import re
from collections.abc import Mapping, Sequence

from nccldoctor.report.svg.topology import topology

_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.num{text-anchor:middle}"
    ".link{stroke:#888;stroke-width:2}.link.nvlink{stroke:#2a7d3f;stroke-width:4}"
    ".link.slow{stroke:#b3261e;stroke-width:4;stroke-dasharray:8 4}.slowly{fill:#b3261e}"
    ".speed{paint-order:stroke;stroke:#fff;stroke-width:4px}"
    ".node rect{fill:#f4f4f4;stroke:#888}.node.gpu rect{fill:#e6f4ea;stroke:#2a7d3f;stroke-width:2}"
    ".node.nic rect{fill:#fdf3e1;stroke:#a66300}"
)


def link_picture(
    devices: Sequence[str], links: Mapping[tuple[str, str], str], host: str | None = None
) -> str | None:
    """The matrix as an SVG document; None where there is too little or too much to draw."""
    pairs = [(a, b) for i, a in enumerate(devices) for b in devices[i + 1 :]]
    told = [(a, b, links.get((a, b)) or links.get((b, a))) for a, b in pairs]
    shape = {
        "origin": "nvidia-smi",
        "hosts": [host or "this host"],
        "nodes": [{"id": d, "kind": _kind(d), "ranks": []} for d in devices],
        "links": [_link(a, b, kind) for a, b, kind in told if kind],
    }
    drawn = topology(shape, {"edges": [], "trees": []})
    if drawn is None:
        return None
    opening = '<svg xmlns="http://www.w3.org/2000/svg" '
    return str(drawn).replace("<svg ", opening, 1).replace(">", f"><style>{_STYLE}</style>", 1)


def _kind(device: str) -> str:
    return "GPU" if device.upper().startswith("GPU") else "NIC"


def _link(a: str, b: str, kind: str) -> dict[str, object]:
    match = re.fullmatch(r"NV(\d+)", kind)
    count = int(match[1]) if match else None
    name = "NV" if match else kind
    return {"a": a, "b": b, "kind": name, "count": count, "gbytes_per_second": None}
