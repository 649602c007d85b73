"""Files made to do harm when they are opened: bombs, climbing tar members, devices, deep and recursive XML."""

import bz2
import gzip
import io
import lzma
import socket
import tarfile
import zlib
from pathlib import Path

import pytest
import zstandard

from nccldoctor import doctor
from nccldoctor.evidence.discover import discover
from nccldoctor.evidence.opening import open_input
from nccldoctor.model.source import Kind, Source
from nccldoctor.parse import xml

GOOD = b"gpu-1:71:71 [0] init.cc:904 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60\n"
BOMBS = {
    "gzip": gzip.compress,
    "gzip twice": lambda data: gzip.compress(gzip.compress(data)),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}


@pytest.mark.parametrize("packing", BOMBS)
def test_a_bomb_is_stopped_and_costs_itself_only(
    packing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nccldoctor.evidence.opening.FREE_EXPANSION", 1 << 20)
    monkeypatch.setattr("nccldoctor.evidence.opening.MOST_EXPANSION", 20)
    (tmp_path / "bomb").write_bytes(BOMBS[packing](bytes(24 << 20)))
    (tmp_path / "good.log").write_bytes(GOOD)
    bomb, _ = discover([str(tmp_path)])
    read = 0
    with open_input(bomb) as stream:
        while piece := stream.read(1 << 16):
            read += len(piece)
        assert read < 8 << 20 and "times its size" in stream.note
    report = doctor.examine([str(tmp_path)])
    assert report.verdict.code == "INIT02" and report.inputs[0].note


def _tar(path: Path, members: dict[str, tuple[bytes, str, bytes]]) -> None:
    """A tar file of name → (type, target, content)."""
    with tarfile.open(path, "w") as archive:
        for name, (kind, target, content) in members.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, target, len(content)
            archive.addfile(member, io.BytesIO(content))


def test_members_of_a_tar_climb_nowhere_and_link_to_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("gpu-1:71:71 [0] NCCL INFO the secret\n")
    folder = tmp_path / "given"
    folder.mkdir()
    _tar(
        folder / "evidence.tar",
        {
            "../../climbed.log": (tarfile.REGTYPE, "", GOOD),
            f"{tmp_path}/absolute.log": (tarfile.REGTYPE, "", GOOD),
            "link": (tarfile.SYMTYPE, str(secret), b""),
            "hard": (tarfile.LNKTYPE, "../secret", b""),
            "pipe": (tarfile.FIFOTYPE, "", b""),
            "zero": (tarfile.CHRTYPE, "", b""),
        },
    )
    report = doctor.examine([str(folder)])
    assert report.verdict.code == "INIT02"
    assert [Path(s.path).name for s in report.inputs] == ["climbed.log", "absolute.log"]
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["evidence.tar", "given", "secret"]


def test_tars_in_tars_end(tmp_path: Path) -> None:
    path = tmp_path / "0.tar"
    _tar(path, {"x.log": (tarfile.REGTYPE, "", GOOD)})
    for depth in range(1, 8):
        inner = path.read_bytes()
        path = tmp_path / f"{depth}.tar"
        _tar(path, {f"{depth - 1}.tar": (tarfile.REGTYPE, "", inner)})
    assert len(discover([str(path)])) == 1


def test_a_tar_of_very_many_members_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nccldoctor.evidence.discover.MOST_MEMBERS", 50)
    _tar(tmp_path / "many.tar", {f"{n}.log": (tarfile.REGTYPE, "", GOOD) for n in range(80)})
    inputs = discover([str(tmp_path / "many.tar")])
    assert len(inputs) == 51 and "more than 50 files" in inputs[-1].trouble


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/random"])
def test_devices_are_refused(device: str) -> None:
    (item,) = discover([device])
    assert "a device" in item.trouble


def test_sockets_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        (item,) = discover(["s"])
    assert "a socket" in item.trouble


ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
XML = {
    "entities that multiply": f'<?xml version="1.0"?><!DOCTYPE system [<!ENTITY e0 "x">{ENTITIES}]><system>&e11;</system>',
    "a file outside": '<?xml version="1.0"?><!DOCTYPE system [<!ENTITY e SYSTEM "file:///etc/passwd">]><system>&e;</system>',
    "an address outside": '<?xml version="1.0"?><!DOCTYPE system SYSTEM "http://127.0.0.1:9/x.dtd"><system/>',
}


@pytest.mark.parametrize("name", XML)
def test_xml_expands_and_fetches_nothing(name: str, tmp_path: Path) -> None:
    digest = xml.read(Source("x", Kind.TOPOLOGY, 0), XML[name].encode())
    text = repr(digest.events)
    assert "root:" not in text and "xxxxxxxxxx" not in text
    assert digest.source.note or name == "an address outside"
    (tmp_path / "topology.xml").write_text(XML[name])
    (tmp_path / "good.log").write_bytes(GOOD)
    assert doctor.examine([str(tmp_path)]).verdict.code == "INIT02"


@pytest.mark.parametrize("depth", [1_000, 200_000])
def test_xml_of_any_depth_ends(depth: int, tmp_path: Path) -> None:
    (tmp_path / "topology.xml").write_text("<system>" + "<cpu>" * depth)
    (tmp_path / "deep.xml").write_text(
        "<system>" + "<cpu>" * depth + "</cpu>" * depth + "</system>"
    )
    (tmp_path / "good.log").write_bytes(GOOD)
    assert doctor.examine([str(tmp_path)]).verdict.code == "INIT02"


def test_a_gzip_with_a_false_length_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(GOOD * 100))
    packed[-8:] = zlib.crc32(b"other").to_bytes(4, "little") + bytes(4)
    (tmp_path / "x.log.gz").write_bytes(packed)
    report = doctor.examine([str(tmp_path)])
    assert report.verdict.code == "INIT02" and report.inputs[0].note
