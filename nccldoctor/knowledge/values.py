"""Which values the variables take: what NCCL would refuse or silently ignore."""

import re
from collections.abc import Callable, Mapping

from nccldoctor.knowledge.environment import lookup, numbers

ALGORITHMS = ("Ring", "Tree", "CollNet", "CollNetChain", "CollNetDirect", "NVLS", "NVLSTree", "PAT")
PROTOCOLS = ("LL", "LL128", "Simple")
FUNCTIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
LEVELS = ("VERSION", "WARN", "ATTN", "INFO", "ABORT", "TRACE", "NONE", "ERROR")
SUBSYSTEMS: Mapping[str, str] = {
    "INIT": "2.3", "COLL": "2.3", "P2P": "2.3", "SHM": "2.3", "NET": "2.3", "ALL": "2.3",
    "GRAPH": "2.5.6", "TUNING": "2.5.6", "ENV": "2.7.3", "ALLOC": "2.9.9", "CALL": "2.13.4",
    "NVLS": "2.17.1", "PROXY": "2.18.1", "BOOTSTRAP": "2.21.5", "REG": "2.21.5", "PROFILE": "2.22.3",
    "RAS": "2.24.3", "DESTROY": "2.30.3", "ALLOC_HOST": "2.30.7", "DIAG": "2.32", "VERBS": "2.3",
}  # fmt: skip
"""Name in NCCL_DEBUG_SUBSYS → first version that accepts it (VERBS: RCCL)."""
DISTANCES = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS")

_INTEGER = re.compile(r"\s*[+-]?(?:0[xX][0-9a-fA-F]+|\d+)\.?\s*")
_TRUTHS = frozenset(["y", "yes", "1", "t", "true", "n", "no", "0", "f", "false"])


def problem(name: str, value: str, version: str | None = None) -> str | None:
    """What is wrong with this value, as the end of a sentence; None when nothing is, or nothing is known."""
    check = _CHECKS.get(name)
    if check is not None:
        return check(value, version)
    variable = lookup(name)
    if variable is None:
        return None
    if variable.number and not _INTEGER.fullmatch(value):
        return "is no integer: NCCL reads the digits it begins with, 0 without any"
    truth = variable.vendor == "torch" and (variable.default or "").startswith(("true", "false"))
    if truth and value.lower() not in _TRUTHS:
        return "is neither true nor false"
    return None


def subsystems(value: str) -> tuple[str, ...]:
    """The names in a NCCL_DEBUG_SUBSYS value, in capitals, without `^`."""
    return tuple(part.strip().lstrip("^").upper() for part in value.split(",") if part.strip())


def _elements(names: tuple[str, ...]) -> Callable[[str, str | None], str | None]:
    known = {n.lower() for n in names}

    def check(value: str, version: str | None) -> str | None:
        for part in filter(None, (p.strip() for p in value.split(";"))):
            function, colon, rest = part.rpartition(":")
            if colon and function.lower() not in {f.lower() for f in FUNCTIONS} | {""}:
                return f"names the function {function!r}; there are {', '.join(FUNCTIONS)}"
            wrong = [t for t in rest.lstrip("^").split(",") if t.strip().lower() not in known]
            if wrong:
                return f"has {wrong[0].strip()!r}; there are {', '.join(names)}"
        return None

    return check


def _words(
    names: tuple[str, ...], numbers_too: bool = False
) -> Callable[[str, str | None], str | None]:
    known = {n.upper() for n in names}

    def check(value: str, version: str | None) -> str | None:
        if value.strip().upper() in known or (numbers_too and _INTEGER.fullmatch(value)):
            return None
        return f"is none of {', '.join(names)}" + (" nor a number" if numbers_too else "")

    return check


def _subsystems(value: str, version: str | None) -> str | None:
    for name in subsystems(value):
        if name not in SUBSYSTEMS:
            return f"has {name!r}, which no NCCL knows"
        if version and numbers(version) < numbers(SUBSYSTEMS[name]):
            return f"has {name!r}, which NCCL knows from {SUBSYSTEMS[name]} on"
    return None


def _port(value: str, version: str | None) -> str | None:
    if value.isdigit() and 0 <= int(value) <= 65535:
        return None
    return "is no port number"


_CHECKS: Mapping[str, Callable[[str, str | None], str | None]] = {
    "NCCL_ALGO": _elements(ALGORITHMS),
    "NCCL_PROTO": _elements(PROTOCOLS),
    "NCCL_DEBUG": _words(LEVELS),
    "NCCL_DEBUG_SUBSYS": _subsystems,
    "NCCL_P2P_LEVEL": _words(DISTANCES, numbers_too=True),
    "NCCL_NET_GDR_LEVEL": _words(DISTANCES, numbers_too=True),
    "NCCL_SOCKET_FAMILY": _words(("AF_INET", "AF_INET6")),
    "NCCL_IB_ADDR_FAMILY": _words(("AF_INET", "AF_INET6")),
    "NCCL_LAUNCH_MODE": _words(("PARALLEL", "GROUP")),
    "NCCL_CHECK_MODE": _words(("DEFAULT", "DEBUG_LOCAL", "DEBUG_GLOBAL")),
    "TORCH_DISTRIBUTED_DEBUG": _words(("OFF", "INFO", "DETAIL")),
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": _words(("0", "1", "2", "3")),
    "MASTER_PORT": _port,
}
