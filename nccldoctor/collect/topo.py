"""Where a link matrix leaves islands, and in which order ranks cross them least."""

import re
from collections.abc import Mapping, Sequence

RANKING = ("NV", "XGMI", "PIX", "PXB", "PHB", "NODE", "PCIE", "SYS")
"""Links from near to far, as nvidia-smi and rocm-smi name them."""

Links = Mapping[tuple[str, str], str]


def closeness(link: str) -> tuple[int, int]:
    """Sorts links: smaller is nearer; NV18 before NV4 before PIX … SYS; unknown words last."""
    match = re.match(r"([A-Z]+)(\d*)", link)
    word, count = (match[1], int(match[2] or 0)) if match else (link, 0)
    return (RANKING.index(word) if word in RANKING else len(RANKING), -count)


def gpus(devices: Sequence[str]) -> list[str]:
    return [device for device in devices if device.upper().startswith("GPU")]


def islands(devices: Sequence[str], links: Links) -> list[list[str]]:
    """GPUs that reach each other by NVLink or XGMI; where there is none, without leaving a NUMA node.

    Without either, each GPU stands alone.
    """
    names = gpus(devices)
    if len(names) < 2:
        return [names] if names else []
    limit = min(closeness(links.get((a, b), "?"))[0] for a in names for b in names if a != b)
    if limit >= RANKING.index("SYS"):
        return [[name] for name in names]
    near = RANKING.index("XGMI" if limit <= RANKING.index("XGMI") else "NODE")
    left, found = list(names), []
    while left:
        island, queue = [], [left.pop(0)]
        while queue:
            one = queue.pop(0)
            island.append(one)
            joined = [
                other
                for other in left
                if min(closeness(links.get(p, "?"))[0] for p in ((one, other), (other, one)))
                <= near
            ]
            queue += joined
            left = [other for other in left if other not in joined]
        found.append(sorted(island, key=names.index))
    return found


def rank_order(devices: Sequence[str], links: Links) -> list[str]:
    """A ring order that stays in each island as long as it can, and takes the nearest next GPU within it."""
    order: list[str] = []
    for island in islands(devices, links):
        left = list(island)
        if order:
            left.sort(
                key=lambda name: (closeness(links.get((order[-1], name), "?")), island.index(name))
            )
        order.append(left.pop(0))
        while left:
            here = order[-1]
            nearest = min(
                left, key=lambda n: (closeness(links.get((here, n), "?")), island.index(n))
            )
            left.remove(nearest)
            order.append(nearest)
    return order


def numbers(names: Sequence[str]) -> str:
    """`GPU0, GPU3` → `0,3`, as CUDA_VISIBLE_DEVICES wants it."""
    return ",".join(re.sub(r"\D", "", name) for name in names)


def from_paths(node: str, paths: str) -> list[tuple[str, str]]:
    """`GPU/0-70 (2/370.8/NVL) CPU/0-0 (1/48.0/PHB)` of NCCL's path table: the kind of way to each other GPU."""
    found = re.findall(r"(GPU/[\w-]{1,40}) \((\d{1,4})/[\d.]{1,12}/(\w{2,4})\)", paths)
    return [(other, "NV" if kind == "NVL" else kind) for other, _, kind in found if other != node]


def from_nodes(
    nodes: Sequence[tuple[str, tuple[int, ...], Mapping[str, str]]],
) -> tuple[list[str], dict[tuple[str, str], str]]:
    """A matrix from the elements of NCCL's topology file, each with its path from the root.

    Two GPUs with NVLinks to a switch are NV# as in nvidia-smi; else the depth of the element that both lie under tells.
    """
    gpus_at = {
        path: f"GPU{a.get('dev', i)}" for i, (tag, path, a) in enumerate(nodes) if tag == "gpu"
    }
    tags = {path: tag for tag, path, _ in nodes}
    switched: dict[str, int] = {}
    bus_of = {path: a.get("busid", "") for tag, path, a in nodes if tag == "pci"}
    direct: dict[tuple[str, str], int] = {}
    for tag, path, attributes in nodes:
        if tag != "nvlink" or path[:-1] not in gpus_at:
            continue
        name, count = gpus_at[path[:-1]], int(attributes.get("count", "1"))
        if attributes.get("tclass", "").startswith("0x068"):
            switched[name] = switched.get(name, 0) + count
        else:
            direct[name, attributes.get("target", "")] = count
    links = {}
    for a_path, a in gpus_at.items():
        for b_path, b in gpus_at.items():
            if a != b:
                near = direct.get((a, bus_of.get(b_path[:-1], "?")), 0)
                count = near or min(switched.get(a, 0), switched.get(b, 0))
                links[a, b] = f"NV{count}" if count else _shared(a_path, b_path, tags)
    return list(gpus_at.values()), links


def _shared(a: tuple[int, ...], b: tuple[int, ...], tags: Mapping[tuple[int, ...], str]) -> str:
    common: tuple[int, ...] = ()
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        common = (*common, x)
    bridges = sum(tags.get(a[:i]) == "pci" for i in range(1, len(common) + 1))
    if bridges:
        return "PIX" if bridges > 1 or len(a) - len(common) <= 2 else "PXB"
    return "PHB" if tags.get(common) == "cpu" else "SYS"
