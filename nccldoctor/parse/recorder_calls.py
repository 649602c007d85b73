"""The recorder's names for operations, sizes and types in NCCL's words."""

import re
from math import prod

from nccldoctor.model.calls import Call

Sizes = tuple[tuple[int, ...], ...]

_OPS = {
    "all_reduce": "AllReduce",
    "allreduce": "AllReduce",
    "allreduce_coalesced": "AllReduce",
    "all_reduce_coalesced": "AllReduce",
    "all_reduce_sparse": "AllReduce",
    "broadcast": "Broadcast",
    "_broadcast_oop": "Broadcast",
    "reduce": "Reduce",
    "_reduce_oop": "Reduce",
    "all_gather": "AllGather",
    "allgather": "AllGather",
    "_all_gather_base": "AllGather",
    "all_gather_base": "AllGather",
    "all_gather_into_tensor": "AllGather",
    "all_gather_into_tensor_coalesced": "AllGather",
    "allgather_into_tensor_coalesced": "AllGather",
    "all_gather_coalesced": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "_reduce_scatter_base": "ReduceScatter",
    "reduce_scatter_base": "ReduceScatter",
    "reduce_scatter_tensor": "ReduceScatter",
    "reduce_scatter_tensor_coalesced": "ReduceScatter",
    "all_to_all": "AlltoAll",
    "alltoall": "AlltoAll",
    "all_to_all_single": "AlltoAll",
    "alltoall_base": "AlltoAll",
    "gather": "Gather",
    "scatter": "Scatter",
    "send": "Send",
    "recv": "Recv",
    "recvanysource": "Recv",
    "barrier": "Barrier",
    "all_reduce_barrier": "Barrier",
    "monitored_barrier": "Barrier",
    "coalesced": "Coalesced",
}
_DTYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
}
_PEER = re.compile(
    r"^(?P<op>send|recv|recvAnySource)\s*(?P<left>\d+)?(?P<arrow>->|<-)(?P<right>\d+|\?)?$"
)


def split_name(profiling_name: str) -> tuple[str, str]:
    """(backend, operation) of `nccl:all_reduce`; a name without a colon has no backend."""
    backend, colon, name = profiling_name.partition(":")
    return (backend, name) if colon else ("", profiling_name)


def call(name: str, inputs: Sizes, outputs: Sizes, dtypes: tuple[str, ...]) -> Call:
    """The call as NCCL would name it.

    The count is that of the input where NCCL counts what each rank sends, that of the output for a reduce-scatter
    and a scatter, None for an all-to-all, whose ranks may send different amounts. A receive from any source has
    no peer.
    """
    peer = None
    if match := _PEER.match(name):
        name = match["op"].lower()
        right = match["right"]
        peer = int(right) if right is not None and right != "?" else None
    op = _OPS.get(name.lower(), name)
    sizes = outputs if op in ("ReduceScatter", "Scatter", "Recv") and outputs else inputs
    count = None if op in ("AlltoAll", "Coalesced", "Barrier") or not sizes else elements(sizes)
    kind = dtype(dtypes[0]) if dtypes and op not in ("Coalesced", "Barrier") else None
    return Call(op, count, kind, None, peer)


def elements(sizes: Sizes) -> int:
    """All elements of these tensors together."""
    return sum(prod(size) for size in sizes)


def dtype(name: str) -> str:
    """`Float` and `torch.float32` as `float32`."""
    plain = name.removeprefix("torch.")
    return _DTYPES.get(plain.lower(), plain.lower())
