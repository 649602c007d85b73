"""What each rank uses between hosts and why: asked for, found, refused; one host on sockets is one clear finding."""

from pathlib import Path

from nccldoctor import doctor

SAMPLES = Path(__file__).parent.parent / "sample_logs"
_RANK = """gpu-{h}:7{r}:7{r} [{r}] NCCL INFO NCCL version 2.21.5+cuda12.4
gpu-{h}:7{r}:7{r} [{r}] NCCL INFO ncclCommInitRankConfig comm 0x{g}5 rank {g} nranks 8 cudaDev {r} nvmlDev {r} busId {b}b000 commId 0xaa - Init START
"""
_IB = "gpu-{h}:7{r}:7{r} [{r}] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.{h}<0>\ngpu-{h}:7{r}:7{r} [{r}] NCCL INFO Using network IB\n"
_SOCKET = """gpu-{h}:7{r}:7{r} [{r}] NCCL INFO Failed to open libibverbs.so[.1]
gpu-{h}:7{r}:7{r} [{r}] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.{h}<0>
gpu-{h}:7{r}:7{r} [{r}] NCCL INFO Using network Socket
"""


def test_one_host_on_sockets(tmp_path: Path) -> None:
    for h in range(1, 5):
        for r in range(2):
            text = _RANK + (_SOCKET if h == 3 else _IB)
            filled = text.format(h=h, r=r, g=(h - 1) * 2 + r, b=r + 1)
            (tmp_path / f"gpu-{h}-{r}.log").write_text(filled)
    report = doctor.examine([str(tmp_path)])
    assert report.verdict.code == "BACKEND03" and report.verdict.hosts == ("gpu-3",)
    assert "Ranks 4, 5 on gpu-3 use Socket (libibverbs is not there)" in report.verdict.headline
    assert next(f for f in report.findings if f.code == "BACKEND02").role.value == "consequence"
    ib, socket = report.facts[0]["backends"]
    assert ib["uses"] == ["IB"] and ib["found"] == ["IB: mlx5_0, mlx5_1"] and not ib["refused"]
    assert ib["ranks"] == [0, 1, 2, 3, 6, 7] and ib["hosts"] == ["gpu-1", "gpu-2", "gpu-4"]
    assert socket["refused"] == ["IB: libibverbs is not there"] and socket["ranks"] == [4, 5]


def test_a_recorded_run_tells_why_it_is_on_sockets() -> None:
    (row,) = doctor.examine([str(SAMPLES / "2.28.9-healthy-default")]).facts[0]["backends"]
    assert row["uses"] == ["Socket"] and row["ranks"] == [0, 1]
    assert "IB: no device" in row["refused"] and row["found"] == ["Socket: eth0"]
