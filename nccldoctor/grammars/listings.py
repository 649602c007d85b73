"""Lists that logs print in a grammar of their own: trees, rings, network devices and paths; a cut tail is left out."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pyparsing as pp


@dataclass(frozen=True, slots=True)
class TreeSeat:
    """A rank's place in the tree of one channel: its parent (None: it is the root) and its children."""

    channel: int
    rank: int
    up: int | None
    down: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NetDevice:
    """One device of `NET/IB : Using …` or `NET/Socket : Using …`; several fused ones have several `parts`.

    `layer` is IB, RoCE or None for sockets; `address` only sockets have; rail and plane since 2.30.
    """

    index: int
    name: str
    port: int | None = None
    layer: str | None = None
    address: str | None = None
    rail: str | None = None
    plane: str | None = None
    parts: tuple["NetDevice", ...] = ()


@dataclass(frozen=True, slots=True)
class PathTo:
    """One entry of a path table: hops, GB/s and the type of the worst link."""

    node: str
    hops: int
    bandwidth: float
    kind: str


def trees(text: str) -> tuple[TreeSeat, ...]:
    """The seats of `Trees [0] 1/-1/-1->0->-1 [1] …`, as NCCL 2.6 and later print them, with or without the first word."""
    return _read(_trees(), text, TreeSeat)


def ring(text: str) -> tuple[int, ...]:
    """The ranks of `0 1 2 3 …`; NCCL cuts the line at 127 characters, and the number that is cut is left out."""
    return _read(_ring(), text, int)


def matrix_row(text: str) -> tuple[str, tuple[str, ...]] | None:
    """Device and links of a row of `nvidia-smi topo -m`: `GPU0 X NV18 SYS 0-31 0 N/A`; None for any other line."""
    try:
        name, links = _matrix_row().parse_string(text)
    except pp.ParseException:
        return None
    return name, tuple(links)


def devices(text: str) -> tuple[NetDevice, ...]:
    """The devices of ` [0]mlx5_0:1/IB [1]={[0] mlx5_1:1/IB, [1] mlx5_2:1/IB} [RO]` or ` [0]eth0:192.0.2.1<0>`."""
    return _read(_devices(), text, NetDevice)


def paths(text: str) -> tuple[PathTo, ...]:
    """The entries of `GPU/0-60 (0/5000.0/LOC) GPU/0-70 (2/370.8/NVL) …`."""
    return _read(_paths(), text, PathTo)


def _read(grammar: pp.ParserElement, text: str, kind: Callable[..., object]) -> tuple:  # type: ignore[type-arg]
    try:
        tokens = grammar.parse_string(text)
    except (pp.ParseBaseException, RecursionError):
        return ()
    return tuple(token for token in tokens if not isinstance(kind, type) or isinstance(token, kind))


def _number() -> pp.ParserElement:
    return pp.Regex(r"-?\d+(?![\w.])").set_parse_action(lambda t: int(t[0]))


@cache
def _trees() -> pp.ParserElement:
    index = pp.Suppress("[") + _number() + pp.Suppress("]")
    down = pp.Group(pp.DelimitedList(_number(), "/"))
    arrow = pp.Suppress("->")
    seat = index + down + arrow + _number() + arrow + _number()

    def made(tokens: pp.ParseResults) -> TreeSeat:
        channel, below, rank, up = tokens
        children = tuple(child for child in below if child >= 0)
        return TreeSeat(channel, rank, up if up >= 0 else None, children)

    whole = seat.set_parse_action(made) + pp.FollowedBy(pp.White() | pp.StringEnd())
    return pp.Opt(pp.Suppress("Trees")) + pp.ZeroOrMore(whole)


@cache
def _ring() -> pp.ParserElement:
    return pp.ZeroOrMore(_number() + ~pp.Literal("..."))


@cache
def _devices() -> pp.ParserElement:
    index = (
        pp.Suppress("[") + pp.Regex(r"\d+").set_parse_action(lambda t: int(t[0])) + pp.Suppress("]")
    )
    name = pp.Regex(r"[A-Za-z][\w.\-]*")
    verbs = name + pp.Regex(
        r":(\d+)(?::([^:/\s]*))?(?::([^:/\s]*))?/(IB|RoCE|ROCE|Unknown|UNSPECIFIED)"
    )
    socket = name + pp.Regex(r":(\S+?<\d+>)")

    def of_verbs(tokens: pp.ParseResults) -> NetDevice:
        number, label, rest = tokens
        port, _, layer = str(rest).rpartition("/")
        _, port, *more = port.split(":")
        rail, plane = [*more, "", ""][:2]
        return NetDevice(number, label, int(port), layer, None, rail or None, plane or None)

    def of_socket(tokens: pp.ParseResults) -> NetDevice:
        number, label, address = tokens
        return NetDevice(number, label, address=str(address)[1:])

    one = (index + verbs).set_parse_action(of_verbs) | (index + socket).set_parse_action(of_socket)

    def of_fused(tokens: pp.ParseResults) -> NetDevice:
        number, *parts = tokens
        return NetDevice(number, "+".join(p.name for p in parts), parts=tuple(parts))

    fused = index + pp.Suppress("={") + pp.DelimitedList(one) + pp.Suppress("}")
    return pp.ZeroOrMore(fused.set_parse_action(of_fused) | one)


@cache
def _paths() -> pp.ParserElement:
    facts = pp.Regex(r"\((?P<hops>\d+)/(?P<bandwidth>\d+(?:\.\d+)?)/(?P<kind>\w+)\)")
    entry = pp.Regex(r"[A-Z]+/[0-9A-Fa-f\-]+") + facts
    made = entry.set_parse_action(
        lambda t: PathTo(t[0], int(t["hops"]), float(t["bandwidth"]), t["kind"])
    )
    return pp.ZeroOrMore(made)


@cache
def _matrix_row() -> pp.ParserElement:
    """Links end where the affinities begin; rocm-smi writes 0 on the diagonal, nvidia-smi X."""
    name = pp.Regex(r"(?:GPU|NIC|mlx)[\w-]*")
    link = pp.Regex(r"(?:X|SYS|NODE|PHB|PXB|PIX|NV\d{1,3}|PHC|XGMI|PCIE|SOC|0|\?)(?=\s|$)")
    return name + pp.Group(link[1, ...])
