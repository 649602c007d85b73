"""The same bytes, whatever engine reads the files and however many workers; a lost worker costs its file only."""

import os
from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.parse import portable
from nccldoctor.report import to_json
from nccldoctor.spread import dask, processes, spread

SAMPLE = Path(__file__).parents[2] / "sample_logs" / "2.28.9-nodes4-skip"


def _with(executor: object) -> str:
    inputs = doctor.gather([str(SAMPLE)])
    return to_json(doctor.conclude(doctor.digest(inputs, executor)))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def alone() -> str:
    return _with(None)


def test_processes_give_the_same_bytes(alone: str) -> None:
    with processes(2) as executor:
        assert _with(executor) == alone


@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_gives_the_same_bytes(alone: str) -> None:
    pytest.importorskip("distributed")
    with dask(None, 2) as executor:
        assert _with(executor) == alone


def test_a_digest_file_gives_the_same_verdict(alone: str, tmp_path: Path) -> None:
    digests = doctor.digest(doctor.gather([str(SAMPLE)]))
    data = portable.dumps(digests)
    assert portable.dumps(digests) == data
    (tmp_path / "all.ncd").write_bytes(data)
    read = doctor.digest(doctor.gather([str(tmp_path / "all.ncd")]))
    assert [d.source for d in read] == [d.source for d in digests]
    assert to_json(doctor.conclude(read)) == alone


@pytest.mark.parametrize(
    "body",
    [
        b'{"nccldoctor": "digest", "schema": 99, "digests": []}',
        b'{"nccldoctor": "digest", "schema": 1, "digests": [{"": "Popen", "args": "ls"}]}',
        b'{"nccldoctor": "digest", "schema": 1, "digests": [{"": "Digest"}]}',
        b'{"nccldoctor": "digest", "schema": 1, "digests": 3}',
        b'{"nccldoctor": "digest", "sche',
    ],
)
def test_a_forged_digest_is_one_sentence(body: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.ncd").write_bytes(body)
    (digest,) = doctor.digest(doctor.gather([str(tmp_path / "x.ncd")]))
    assert digest.source.note and not digest.events


def _die_on_seven(number: int) -> str:
    if number == 7:
        os._exit(1)
    return f"read {number}"


def test_a_lost_worker_costs_one_item() -> None:
    with processes(2) as executor:
        results = list(spread(_die_on_seven, range(12), lambda item, why: f"lost {item}", executor))
    assert results == [f"{'lost' if n == 7 else 'read'} {n}" for n in range(12)]
