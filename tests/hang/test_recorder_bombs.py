"""Small dumps that would take for ever, all memory or the whole stack become dumps with entries that cannot be read."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nccldoctor.model.events.recorder import RecorderDump
from nccldoctor.model.source import Kind, Source
from nccldoctor.parse import recorder
from tests.hang.recorder_dumps import dump, entry

HEAD = b"\x80\x02}X\x07\x00\x00\x00entries]}"
TAIL = b"K\x01sas."
"""A dump with one entry, of which the key is what stands between the two."""


def _laughing() -> list[Any]:
    """A list of twice the same list of twice the same list, and so on: short as a pickle, endless as a text."""
    laughing: list[Any] = [1]
    for _ in range(60):
        laughing = [laughing, laughing]
    return laughing


def _read(data: bytes) -> tuple[RecorderDump | None, str]:
    digest = recorder.read(Source("rank_0", Kind.RECORDER, len(data)), data)
    event = digest.events[0] if digest.events else None
    assert event is None or isinstance(event, RecorderDump)
    return event, digest.source.note


@pytest.mark.parametrize("field", sorted(entry("all_reduce")))
def test_endless_fields(field: str) -> None:
    odd = {"process_group": ["0", "default_pg"], field: _laughing()}
    event, _ = _read(pickle.dumps(dump([entry("all_reduce", **odd)], {"0": (0, 1)}), 2))
    assert event is not None and len(event.entries) <= 1


@pytest.mark.parametrize("field", ["version", "comm_lib_version", "pg_config", "pg_status"])
def test_endless_heads(field: str) -> None:
    event, note = _read(pickle.dumps({**dump([], {"0": (0, 1)}), field: _laughing()}, 2))
    assert event is None or not event.entries
    assert note and "\n" not in note


def test_one_long_entry_named_often() -> None:
    often = [entry("all_reduce", process_group=["0", ""], input_sizes=[[1] * 1000] * 1000)] * 5_000
    event, note = _read(pickle.dumps(dump(often, {"0": (0, 1)}), 2))
    assert event is not None and not event.entries
    assert "5000 entries could not be read" in note


@pytest.mark.parametrize("put", [b"q\x05", b"(eq\x05", b"(uq\x05", b"r\x05\x00\x00\x00"])
def test_pairs_of_pairs_are_no_keys(put: bytes) -> None:
    pairs = b"K\x01K\x02\x86" + put + (b"h\x05h\x05\x86" + put) * 60
    event, _ = _read(HEAD + pairs + TAIL)
    assert event is not None and not event.entries


@pytest.mark.parametrize(
    "nest",
    [
        "b'K\\x01' + b'K\\x01\\x86' * n",
        "b')' + b'\\x85' * n",
        "b'K\\x01' + b'(K\\x01' * n + b't' * n",
        "b'\\x8f' + b'\\x91' * n",
    ],
)
def test_deep_keys_do_not_break_the_stack(nest: str) -> None:
    program = f"""
from nccldoctor.model.source import Kind, Source
from nccldoctor.parse import recorder
n = 300_000
digest = recorder.read(Source("rank_0", Kind.RECORDER, 1), {HEAD!r} + {nest} + {TAIL!r})
assert not digest.events[0].entries
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2])
    assert done.returncode == 0
