"""Work of a rank that may just take long while all others wait: saving, loading, compiling, evaluating, by its stack."""

from collections.abc import Sequence
from dataclasses import dataclass

from nccldoctor.model.events.torch import StackFrame


@dataclass(frozen=True, slots=True)
class LongWork:
    """`doing` follows "it is": `saving a checkpoint in torch.save`."""

    doing: str


_SERIALIZATION = "torch/serialization.py"
_PLACES = (
    ("torch/distributed/checkpoint/", "{} a distributed checkpoint"),
    (_SERIALIZATION, "{} a checkpoint in torch.{}"),
    ("safetensors/", "{} a checkpoint with safetensors"),
)
_COMPILERS = (
    "torch/_inductor/",
    "torch/_dynamo/",
    "triton/compiler/",
    "torch/utils/cpp_extension",
)
_EVALUATIONS = frozenset({"evaluate", "validate", "validation", "eval_loop", "evaluation_loop"})


def long_work(frames: Sequence[StackFrame]) -> LongWork | None:
    """What a stack (innermost frame first) is at, None where it is no such work."""
    functions = [frame.function.rpartition(".")[2] for frame in frames]
    for place, words in _PLACES:
        inside = [f.function for f in frames if place in f.file]
        if inside:
            verb = "load" if any("load" in function for function in inside) else "save"
            return LongWork(words.format("loading" if verb == "load" else "saving", verb))
    if any(compiler in f.file for f in frames for compiler in _COMPILERS):
        return LongWork("compiling")
    named = next((f for f in functions if f in _EVALUATIONS), None)
    return LongWork(f"evaluating in {named}") if named else None
