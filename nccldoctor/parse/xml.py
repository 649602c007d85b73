"""NCCL's topology and graph files (NCCL_TOPO_DUMP_FILE, NCCL_GRAPH_DUMP_FILE), flattened into one event."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from defusedxml.ElementTree import ParseError, fromstring

from nccldoctor.model.digest import Digest
from nccldoctor.model.events.gpus import TopologyFile, TopologyNode
from nccldoctor.model.source import Line, Source

MOST_NODES = 20_000
DEEPEST = 64
MOST_ATTRIBUTES = 32
LONGEST_VALUE = 256


def read(source: Source, data: bytes) -> Digest:
    """The digest of one file; entities and external references are refused by the parser, broken XML is noted."""
    try:
        root = fromstring(data.decode("utf-8", "replace"))
    except (ParseError, ValueError) as error:
        return Digest(replace(source, note=f"no XML that can be read: {str(error)[:100]}"))
    nodes = []
    for node in _flat(root, ()):
        nodes.append(node)
        if len(nodes) == MOST_NODES:
            break
    first = data[:200].decode("utf-8", "replace").splitlines() or [""]
    line = Line(source.path, 1, first[0])
    event = TopologyFile(line=line, root=str(root.tag), nodes=tuple(nodes))
    return Digest(replace(source, lines=data.count(b"\n")), (event,))


def _flat(element: Any, path: tuple[int, ...]) -> Iterator[TopologyNode]:
    """The element and all below it, each after its parent; without recursion, for files made to be deep."""
    todo = [(element, path)]
    while todo:
        here, place = todo.pop()
        pairs = list(here.attrib.items())[:MOST_ATTRIBUTES]
        attributes = {str(k)[:LONGEST_VALUE]: str(v)[:LONGEST_VALUE] for k, v in pairs}
        yield TopologyNode(tag=str(here.tag), path=place, attributes=attributes)
        if len(place) < DEEPEST:
            todo += reversed([(child, (*place, i)) for i, child in enumerate(here)])
