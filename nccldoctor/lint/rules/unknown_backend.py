"""A process group is asked for with a backend that PyTorch does not have.

On ROCm builds RCCL answers to the name `nccl`; there is no backend `rccl`. An unknown name ends in
`AssertionError: Unknown backend type ...` before the first collective. Backends that a plug-in registers are left
alone when the file registers or imports one.
"""

import ast
import difflib
from collections.abc import Iterator

from nccldoctor.lint.flow import INIT
from nccldoctor.lint.rule import Edit, Hit
from nccldoctor.lint.script import Script, argument
from nccldoctor.model.finding import Confidence, Severity

code = "CODE01"
name = "unknown-backend"
severity = Severity.ERROR
confidence = Confidence.HIGH
remedy = (
    'dist.init_process_group("nccl")  # on NVIDIA, and on AMD too: RCCL is behind this name',
    'dist.init_process_group("cpu:gloo,cuda:nccl")  # when CPU tensors are exchanged as well',
)

OWN = ("nccl", "gloo", "mpi", "ucc", "xccl")
_OTHERS = [
    "fake",
    "threaded",
    "undefined",
    "nccl2",
    "nccl-lazy",
    "nccl_nonblocking",
    "ccl",
    "hccl",
    "cncl",
    "mccl",
    "xla",
    "smddp",
    "bagua",
    "eccl",
    "flagcx",
    "lccl",
    "tccl",
    "topsccl",
    "torchcomms",
    "mcclcpu",
    "cncl",
    "bccl",
    "jccl",
    "vccl",
    "iccl",
    "kccl",
    "sccl",
    "gcu",
    "dtensor",
]
_KNOWN = frozenset([*OWN, *_OTHERS])
_CALLS = {INIT: 0, "torch.distributed.new_group": 2, "torch.distributed.new_subgroups": 4}
_OTHERS_HOMES = ("torch_npu", "torch_musa", "torch_ucc", "oneccl_bindings_for_pytorch", "torch_mlu")


def check(script: Script) -> Iterator[Hit]:
    if script.names.imported(*_OTHERS_HOMES) or "register_backend" in script.text:
        return
    for call in script.calls:
        if call.dotted not in _CALLS:
            continue
        given = argument(call.node, _CALLS[call.dotted], "backend")
        value = script.settled(given) if given is not None else None
        if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
            continue
        wrong = _unknown(value.value)
        if wrong:
            yield Hit(value, _title(wrong), edits=_edits(value, wrong))


def _unknown(backend: str) -> str:
    """The first name in `backend`, or in `cpu:…,cuda:…`, that nobody has, else ""."""
    for part in backend.casefold().split(","):
        each = part.rpartition(":")[2].strip()
        if each not in _KNOWN:
            return each or backend
    return ""


def _title(wrong: str) -> str:
    if wrong == "rccl":
        return "There is no backend 'rccl': on ROCm builds RCCL is behind the name 'nccl'"
    near = difflib.get_close_matches(wrong, OWN, 1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; PyTorch has {', '.join(OWN)}"
    return f"There is no backend {wrong!r}{hint}"


def _edits(value: ast.Constant, wrong: str) -> tuple[Edit, ...]:
    if value.value != "rccl" or value.end_lineno is None or value.end_col_offset is None:
        return ()
    place = (value.lineno, value.col_offset, value.end_lineno, value.end_col_offset)
    return (Edit(*place, '"nccl"'),)


flags = {
    "rccl is no name": """
import torch.distributed as dist
dist.init_process_group(backend="rccl")
""",
    "a typing error, through an alias": """
from torch.distributed import init_process_group as start
BACKEND = "ncll"
start(BACKEND)
""",
    "in a table of devices": """
import torch.distributed as dist
dist.new_group([0, 1], backend="cpu:gloo,cuda:rccl")
""",
}
passes = {
    "the usual ones": """
import torch.distributed as dist
dist.init_process_group("cpu:gloo,cuda:nccl")
g = dist.new_group(backend="gloo")
h = dist.new_group(backend=None)
""",
    "a backend of one's own": """
import torch.distributed as dist
dist.Backend.register_backend("mine", make)
dist.init_process_group("mine")
""",
    "not torch": """
import comm as dist
dist.init_process_group(backend="rccl")
""",
}
