"""Lists with a grammar of their own, whole and cut."""

from hypothesis import given
from hypothesis import strategies as st

from nccldoctor.grammars.listings import NetDevice, devices

FUSED = " [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [1]mlx5_2:1/RoCE [RO]"


def test_devices() -> None:
    first, second = devices(FUSED)
    assert (first.name, first.parts[1]) == ("mlx5_0+mlx5_1", NetDevice(1, "mlx5_1", 1, "IB"))
    assert second == NetDevice(1, "mlx5_2", 1, "RoCE")
    assert devices("[0]mlx5_0:1:3:A/IB")[0] == NetDevice(0, "mlx5_0", 1, "IB", None, "3", "A")
    assert devices(" [0]eth0:192.0.2.1<0> [1]ib0:fe80::1%ib0<0>") == (
        NetDevice(0, "eth0", address="192.0.2.1<0>"),
        NetDevice(1, "ib0", address="fe80::1%ib0<0>"),
    )


def test_a_cut_tail_loses_only_itself() -> None:
    whole = devices(FUSED)
    for cut in range(len(FUSED)):
        got = devices(FUSED[:cut])
        assert got == whole[: len(got)]


@given(st.text(alphabet="0123456789[]{}=/->: .,mlx5_IBGPUTreesNVL()<", max_size=80))
def test_any_text_is_survived(text: str) -> None:
    assert isinstance(devices(text), tuple)
