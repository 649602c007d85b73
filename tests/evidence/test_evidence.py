"""Finding and opening inputs: every packing, every odd path, and the kind told by content."""

import bz2
import gzip
import io
import lzma
import os
import tarfile
from pathlib import Path

import pytest
import zstandard

from nccldoctor.evidence.discover import discover
from nccldoctor.evidence.kinds import kind_of
from nccldoctor.evidence.opening import open_input
from nccldoctor.model.source import Kind

LOG = b"gpu-node-01:736:736 [0] NCCL INFO Bootstrap: Using eth0:192.0.2.2<0>\n" * 50
PACKINGS = {
    "plain": lambda data: data,
    "gzip": gzip.compress,
    "gzip-twice": lambda data: gzip.compress(gzip.compress(data)),
    "gzip-pieces": lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:]),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
    "zstd-frames": lambda data: (
        zstandard.ZstdCompressor().compress(data[:100])
        + zstandard.ZstdCompressor().compress(data[100:])
    ),
}


@pytest.mark.parametrize("packing", PACKINGS)
def test_every_packing_is_undone_whatever_the_name(tmp_path: Path, packing: str) -> None:
    path = tmp_path / "evidence.dat"
    path.write_bytes(PACKINGS[packing](LOG))
    (item,) = discover([str(path)])
    with open_input(item) as stream:
        assert stream.read() == LOG
        assert stream.note == ""


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_members_of_a_tar_are_inputs_packed_ones_too(tmp_path: Path, mode: str) -> None:
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:gz") as archive:
        _add(archive, "deep/rank2.log", LOG)
    with tarfile.open(tmp_path / "bundle", mode) as archive:
        _add(archive, "rank0.log", LOG)
        _add(archive, "rank1.log.gz", gzip.compress(LOG))
        _add(archive, "inner.tgz", inner.getvalue())
    items = discover([str(tmp_path)])
    assert [item.path.removeprefix(str(tmp_path / "bundle")) for item in items] == [
        ":rank0.log",
        ":rank1.log.gz",
        ":inner.tgz:deep/rank2.log",
    ]
    for item in items:
        with open_input(item) as stream:
            assert stream.read(1 << 20) == LOG


@pytest.mark.parametrize("packing", ["gzip", "bzip2", "xz"])
def test_a_torn_packed_file_gives_what_it_has_and_says_so(tmp_path: Path, packing: str) -> None:
    data = os.urandom(1 << 20)
    path = tmp_path / "torn"
    path.write_bytes(PACKINGS[packing](data)[:-1000])
    with open_input(discover([str(path)])[0]) as stream:
        got = stream.read()
        assert data.startswith(got)
        assert stream.note


def test_a_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nccldoctor.evidence.opening.FREE_EXPANSION", 1 << 20)
    path = tmp_path / "bomb"
    path.write_bytes(bz2.compress(bytes(64 << 20)))
    with open_input(discover([str(path)])[0]) as stream:
        assert len(stream.read()) < 4 << 20
        assert "times its size" in stream.note


def test_a_file_is_taken_once_and_loops_and_pipes_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(LOG)
    (tmp_path / "again.log").hardlink_to(tmp_path / "a.log")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    items = discover([str(tmp_path), str(tmp_path / "*.log"), str(tmp_path / "a.log")])
    assert [item.path for item in items] == [str(tmp_path / "a.log")]
    (pipe,) = discover([str(tmp_path / "pipe")])
    assert "a pipe" in pipe.trouble


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    troubles = [
        i.trouble for i in discover([f"{tmp_path}/no", f"{tmp_path}/*.no", f"{tmp_path}/empty"])
    ]
    assert troubles == [
        "there is no such file",
        "no file matches this pattern",
        "this folder has no files",
    ]


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"", Kind.EMPTY),
        (b"\n \n", Kind.EMPTY),
        (LOG, Kind.LOG),
        (b"hello\nworld\n", Kind.LOG),
        (bytes(300) + LOG, Kind.LOG),
        ("Größe\n".encode("latin-1") + b"x" * 40, Kind.LOG),
        ("日本語\n".encode()[:-2], Kind.LOG),
        (b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 4, Kind.FOREIGN),
        (b"\x80\x02}q\x00(X\x07\x00\x00\x00versionq\x01X\x09\x00\x00\x00pg_config", Kind.RECORDER),
        (b"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94\x8c\x05model", Kind.FOREIGN),
        (b'{"version": "2.10", "pg_config": {}, "entries": []}', Kind.RECORDER),
        (b'SERVER PROTOCOL 2\nOK\n{\n "nccl_version": "2.28.9",\n "communicators": []}', Kind.RAS),
        (b"SERVER PROTOCOL 2\nNCCL version 2.28.9 compiled with CUDA 13.0\n", Kind.RAS),
        (b"NCCL version 2.28.9 compiled with CUDA 13.0\n", Kind.RAS),
        (b'<?xml version="1.0"?>\n<system version="1">', Kind.TOPOLOGY),
        (b'<graphs version="1">\n', Kind.TOPOLOGY),
        (b"<html><body>", Kind.LOG),
        (b"\t\x1b[4mGPU0\tGPU1\tCPU Affinity\x1b[0m\nGPU0\t X \tNV18\n", Kind.SMI),
        (b"\n==============NVSMI LOG==============\n", Kind.SMI),
        (b"GPU 0: NVIDIA H200 (UUID: GPU-0000)\n\t Link 0: 26.562 GB/s\n", Kind.SMI),
        (b'{"header":{},"metadata":{"inspector_output_format_version":"v4.0"}}\n', Kind.INSPECTOR),
        (b'{"nccldoctor": "snapshot", "gpus": []}', Kind.SNAPSHOT),
        (b'{"nccldoctor": "digest", "version": 1}', Kind.DIGEST),
        (b'{"log": "a:1:1 [0] NCCL INFO x\\n", "stream": "stdout"}\n', Kind.LOG),
    ],
)
def test_the_kind_is_told_by_the_content(head: bytes, kind: Kind) -> None:
    assert kind_of(head) is kind


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))
