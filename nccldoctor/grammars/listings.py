"""Lists in a grammar of their own: network devices in logs, rows of `nvidia-smi topo -m`; a cut tail is left out."""

from dataclasses import dataclass
from functools import cache

import pyparsing as pp


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


def matrix_row(text: str) -> tuple[str, tuple[str, ...]] | None:
    """Device and links of a row of `nvidia-smi topo -m`: `GPU0 X NV18 SYS 0-31 0 N/A`; None for any other line."""
    try:
        name, links = _matrix_row().parse_string(text)
    except pp.ParseException:
        return None
    return name, tuple(links)


def devices(text: str) -> tuple[NetDevice, ...]:
    """The devices of ` [0]mlx5_0:1/IB [1]={[0] mlx5_1:1/IB, [1] mlx5_2:1/IB} [RO]` or ` [0]eth0:192.0.2.1<0>`."""
    try:
        return tuple(_devices().parse_string(text))
    except (pp.ParseBaseException, RecursionError):
        return ()


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
def _matrix_row() -> pp.ParserElement:
    """Links end where the affinities begin; rocm-smi writes 0 on the diagonal, nvidia-smi X."""
    name = pp.Regex(r"(?:GPU|NIC|mlx)[\w-]*")
    link = pp.Regex(r"(?:X|SYS|NODE|PHB|PXB|PIX|NV\d{1,3}|PHC|XGMI|PCIE|SOC|0|\?)(?=\s|$)")
    return name + pp.Group(link[1, ...])
