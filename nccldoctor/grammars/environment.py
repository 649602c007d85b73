"""The values of variables that have a grammar of their own, and where exactly one goes wrong."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import pyparsing as pp

from nccldoctor.knowledge.values import ALGORITHMS, FUNCTIONS, PROTOCOLS, SUBSYSTEMS


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong at a character of a value; `column` counts from 0."""

    column: int
    message: str


def fault(name: str, value: str) -> Fault | None:
    """The first fault of a variable's value; None when there is none, or the variable has no grammar here."""
    grammar = grammars().get(name)
    if grammar is None or not value:
        return None
    try:
        grammar.parse_string(value, parse_all=True)
    except pp.ParseBaseException as error:
        return Fault(min(error.loc, len(value)), _said(error, value))
    return None


@cache
def grammars() -> dict[str, pp.ParserElement]:
    """The grammar of each variable that has one (NCCL user guide, environment variables)."""
    interfaces, devices = _interfaces(), _devices()
    return {
        "NCCL_ALGO": _choices(ALGORITHMS),
        "NCCL_PROTO": _choices(PROTOCOLS),
        "NCCL_DEBUG_SUBSYS": _list(_word(tuple(SUBSYSTEMS))),
        "NCCL_SOCKET_IFNAME": interfaces,
        "NCCL_OOB_NET_IFNAME": interfaces,
        "NCCL_IB_HCA": devices,
    }


def _choices(names: tuple[str, ...]) -> pp.ParserElement:
    """`[function:][^]name,name[;…]`, as NCCL_ALGO and NCCL_PROTO since 2.24; before, without functions."""
    function = _checked(pp.Regex(r"[A-Za-z]+(?=:)"), FUNCTIONS) + pp.Literal(":")
    entry = pp.Opt(function) + _list(_word(names))
    return _tight(entry + pp.ZeroOrMore(pp.Literal(";") + entry) + pp.Opt(pp.Literal(";")))


def _list(word: pp.ParserElement) -> pp.ParserElement:
    """`[^]word,word…`."""
    return _tight(pp.Opt(pp.Literal("^")) + word + pp.ZeroOrMore(pp.Literal(",") + word))


def _interfaces() -> pp.ParserElement:
    """`[^][=]name,name…`; without `=` each is a prefix."""
    name = pp.Regex(r"[A-Za-z0-9_.@:\-]{1,15}").set_name("the name of an interface")
    head = pp.Opt(pp.Literal("^")) + pp.Opt(pp.Literal("="))
    return _tight(head + name + pp.ZeroOrMore(pp.Literal(",") - name))


def _devices() -> pp.ParserElement:
    """`[^][=]device[:port[:rail[:plane]]],…`."""
    device = pp.Regex(r"[A-Za-z0-9_.\-]+").set_name("the name of a device")
    number = pp.Regex(r"[0-9]+").set_name("a port number")
    entry = device + pp.ZeroOrMore(pp.Literal(":") - number)
    head = pp.Opt(pp.Literal("^")) + pp.Opt(pp.Literal("="))
    return _tight(head + entry + pp.ZeroOrMore(pp.Literal(",") - entry))


def _word(names: tuple[str, ...]) -> pp.ParserElement:
    return _checked(pp.Regex(r"[^,;:^]*"), names)


def _checked(token: pp.ParserElement, names: tuple[str, ...]) -> pp.ParserElement:
    """The token, which must be one of the names, whatever its case."""
    token.add_parse_action(_check(names))
    return token


def _check(names: Iterable[str]) -> Callable[[str, int, pp.ParseResults], None]:
    known = {name.casefold(): name for name in names}

    def check(text: str, at: int, found: pp.ParseResults) -> None:
        word = str(found[0])
        if word.casefold() not in known:
            raise pp.ParseFatalException(text, at, _unknown(word, known))

    return check


def _unknown(word: str, known: dict[str, str]) -> str:
    if not word.strip():
        return "a name is missing"
    if word != word.strip() and word.strip().casefold() in known:
        return "no blanks here: NCCL takes them as part of the name"
    from difflib import get_close_matches

    near = get_close_matches(word.strip().casefold(), list(known), 1, 0.6)
    if near:
        return f"did you mean {known[near[0]]}?"
    return f"one of {', '.join(known.values())}"


def _tight(grammar: pp.ParserElement) -> pp.ParserElement:
    return grammar.leave_whitespace()


def _said(error: pp.ParseBaseException, value: str) -> str:
    if isinstance(error, pp.ParseFatalException) and not isinstance(error, pp.ParseSyntaxException):
        return str(error.msg)
    if error.loc < len(value) and value[error.loc].isspace():
        return "no blanks here: NCCL takes them as part of the name"
    if error.loc >= len(value):
        return "something is missing at the end"
    wanted = str(error.msg).partition(", found")[0].removeprefix("Expected ")
    return "this cannot follow here" if "end of text" in wanted else f"{wanted} is expected here"
