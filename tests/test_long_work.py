"""What a stack says of work that may take long."""

import pytest

from nccldoctor.diagnose.long_work import long_work
from nccldoctor.model.events.torch import StackFrame

TORCH = "/usr/lib/python3/dist-packages/torch/"


def stack(*frames):
    return [StackFrame(function=name, file=file, line=1) for name, file in frames]


@pytest.mark.parametrize(
    ("frames", "doing"),
    [
        (
            [("_save", f"{TORCH}serialization.py"), ("save", f"{TORCH}serialization.py")],
            "saving a checkpoint in torch.save",
        ),
        ([("load", f"{TORCH}serialization.py")], "loading a checkpoint in torch.load"),
        (
            [("save", f"{TORCH}distributed/checkpoint/state_dict_saver.py")],
            "saving a distributed checkpoint",
        ),
        ([("compile", "/opt/triton/compiler/compiler.py"), ("main", "train.py")], "compiling"),
        ([("forward", "model.py"), ("Trainer.validate", "train.py")], "evaluating in validate"),
    ],
)
def test_long_work(frames, doing):
    assert long_work(stack(*frames)).doing == doing


def test_all_else_is_none():
    assert long_work(stack(("read", "data.py"), ("main", "train.py"))) is None
    assert long_work(()) is None
