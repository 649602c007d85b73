"""Lists with a grammar of their own, whole and cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.grammars.listings import (
    NetDevice,
    PathTo,
    TreeSeat,
    devices,
    paths,
    ring,
    trees,
)

TREES = "Trees [0] 7/-1/-1->6->4 [1] 7/2/-1->6->-1"
FUSED = " [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [1]mlx5_2:1/RoCE [RO]"
PATHS = "GPU/0-60 (0/5000.0/LOC) GPU/0-70 (2/370.8/NVL) CPU/0-0 (1/48.0/PHB) "


def test_trees() -> None:
    assert trees(TREES) == (TreeSeat(0, 6, 4, (7,)), TreeSeat(1, 6, None, (7, 2)))


def test_rings_lose_only_the_number_that_is_cut() -> None:
    assert ring("   0   1   2   3") == (0, 1, 2, 3)
    assert ring("0 1 2 3 4...") == (0, 1, 2, 3)


def test_devices() -> None:
    first, second = devices(FUSED)
    assert (first.name, first.parts[1]) == ("mlx5_0+mlx5_1", NetDevice(1, "mlx5_1", 1, "IB"))
    assert second == NetDevice(1, "mlx5_2", 1, "RoCE")
    assert devices("[0]mlx5_0:1:3:A/IB")[0] == NetDevice(0, "mlx5_0", 1, "IB", None, "3", "A")
    assert devices(" [0]eth0:192.0.2.1<0> [1]ib0:fe80::1%ib0<0>") == (
        NetDevice(0, "eth0", address="192.0.2.1<0>"),
        NetDevice(1, "ib0", address="fe80::1%ib0<0>"),
    )


def test_paths() -> None:
    assert paths(PATHS) == (
        PathTo("GPU/0-60", 0, 5000.0, "LOC"),
        PathTo("GPU/0-70", 2, 370.8, "NVL"),
        PathTo("CPU/0-0", 1, 48.0, "PHB"),
    )


@pytest.mark.parametrize(("reader", "text"), [(trees, TREES), (devices, FUSED), (paths, PATHS)])
def test_a_cut_tail_loses_only_itself(reader, text: str) -> None:
    whole = reader(text)
    for cut in range(len(text)):
        got = reader(text[:cut])
        assert got == whole[: len(got)]


@given(st.text(alphabet="0123456789[]{}=/->: .,mlx5_IBGPUTreesNVL()<", max_size=80))
def test_any_text_is_survived(text: str) -> None:
    for reader in (trees, ring, devices, paths):
        assert isinstance(reader(text), tuple)
