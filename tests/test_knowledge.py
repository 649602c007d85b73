"""Facts as data: numbers that moved, bugs with their sources, statuses and Xids."""

import re
from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.diagnose.signs import proof
from nccldoctor.knowledge.channels import most, usual
from nccldoctor.knowledge.clouds import CLOUDS, cloud_of_network, cloud_of_nic, cloud_of_plugin
from nccldoctor.knowledge.environment import lookup, numbers
from nccldoctor.knowledge.ib_status import STATUS, status
from nccldoctor.knowledge.known_bugs import KNOWN_BUGS, KnownBug
from nccldoctor.knowledge.path_types import MEANING, path_type
from nccldoctor.knowledge.scopes import DECIDING, LAZY, PER_HOST, SWITCHES
from nccldoctor.knowledge.xid import MEMORY, NVLINK, XIDS, Blame, xid
from nccldoctor.model.job import Job

SAMPLES = Path(__file__).parent.parent / "sample_logs"


@pytest.mark.parametrize(
    ("distance", "version", "name"),
    [
        (5, "2.7.8", "SYS"),
        (5, "2.8.3", "PHB"),
        (7, "2.18.3", "SYS"),
        (7, "2.26.2", "PHB"),
        (7, "2.27.3", "P2C"),
        (7, "2.28.9", "PXN"),
        (99, "2.28.9", None),
        (3, None, None),
    ],
)
def test_path_types_moved(distance: int, version: str | None, name: str | None) -> None:
    assert path_type(distance, version) == name
    assert name is None or name in MEANING


def test_bugs_are_many_and_named_once() -> None:
    assert len(KNOWN_BUGS) >= 25
    assert len({b.name for b in KNOWN_BUGS}) == len(KNOWN_BUGS)


@pytest.mark.parametrize("bug", KNOWN_BUGS, ids=lambda b: b.name)
def test_a_bug_has_versions_signs_and_a_public_address(bug: KnownBug) -> None:
    assert re.match(r"https://(github\.com|docs\.nvidia\.com)/\S+$", bug.source)
    assert bug.since or bug.fixed or bug.last or bug.library == "torch"
    assert not (bug.fixed and bug.last), "a fix makes the last version that has it superfluous"
    if bug.since and (bug.fixed or bug.last):
        assert numbers(bug.since) <= numbers(bug.fixed or bug.last)
    assert bug.signs and bug.remedy and bug.summary
    for sign in bug.signs:
        assert list(proof(Job(), sign)) == []


def test_signs_name_variables_that_exist() -> None:
    for bug in KNOWN_BUGS:
        for sign in bug.signs:
            if sign.startswith("env"):
                name = sign.partition(":")[2].partition("=")[0]
                assert lookup(name) or name == "CUDA_LAUNCH_BLOCKING"


def test_all_statuses_of_verbs_are_there() -> None:
    assert set(STATUS) == set(range(23))
    assert status(99).meaning


def test_what_programs_cause_is_no_hardware() -> None:
    for number in (13, 31, 43, 45):
        assert xid(number).blame is Blame.APPLICATION
    for number in (48, 79, 94, 95):
        assert xid(number).blame is Blame.HARDWARE
    assert set(XIDS) >= MEMORY | NVLINK


def test_scopes_name_real_variables() -> None:
    for name in DECIDING | set(SWITCHES):
        assert lookup(name), name
    assert LAZY <= DECIDING
    assert not DECIDING & PER_HOST


def test_clouds_are_told_by_their_plugin() -> None:
    assert cloud_of_network("AWS Libfabric") is CLOUDS[0]
    assert cloud_of_network("FasTrak") is not None
    assert cloud_of_network("IB") is None
    assert cloud_of_network("Socket") is None


@pytest.mark.parametrize(
    ("gbytes_per_second", "count"),
    [(370.8, 24), (360.0, 24), (240.0, 24), (721.8, 32), (164.8, 16), (120.0, None), (None, None)],
)
def test_usual_channels(gbytes_per_second: float | None, count: int | None) -> None:
    found = usual(gbytes_per_second)
    assert (found.channels if found else None) == count


@pytest.mark.parametrize(
    ("version", "count"), [("2.18.3", 32), ("2.24.3", 32), ("2.28.9", 64), (None, 64)]
)
def test_most_channels(version: str | None, count: int) -> None:
    assert most(version) == count


def test_a_recorded_fallback_is_set_against_the_usual_channels() -> None:
    report = doctor.examine([str(SAMPLES / "2.28.9-fallback-seed")])
    (found,) = [f for f in report.findings if f.code == "ENV07"]
    assert "1 channel where" in found.title and "usually have 24" in found.title
    assert any("NVS/" in line.text for line in found.evidence)


@pytest.mark.parametrize(
    ("plugin", "cloud"),
    [
        ("libnccl-net-ofi.so", "AWS (EFA)"),
        ("FasTrak", "Google Cloud (A3 Mega)"),
        ("GPUDirectTCPX_v7", "Google Cloud (A3 High)"),
        ("libnccl-net_gib.so", "Google Cloud (A3 Ultra, A4)"),
        ("IBext_v8", None),
        ("libnccl-net-mine.so", None),
    ],
)
def test_clouds_by_their_plugins(plugin: str, cloud: str | None) -> None:
    found = cloud_of_plugin(plugin)
    assert (found.name if found else None) == cloud


@pytest.mark.parametrize(
    ("nic", "cloud"),
    [
        ("mlx5_ib0", "Azure (InfiniBand)"),
        ("rdmap79s0", "AWS (EFA)"),
        ("mlx5_0", None),
        ("eth1", None),
    ],
)
def test_clouds_by_their_network_cards(nic: str, cloud: str | None) -> None:
    found = cloud_of_nic(nic)
    assert (found.name if found else None) == cloud
