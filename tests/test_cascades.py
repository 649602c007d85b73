"""One fault, dozens of complaints: the cause heads the report, and what follows from it stands below."""

from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.model.finding import Finding, Role, Severity
from nccldoctor.model.report import Report

_RANKS = 48
_PER_HOST = 8
_START = "ncclCommInitRankConfig comm 0x{r:x}5 rank {r} nranks 48 cudaDev {d} nvmlDev {d} busId {bus}000 commId 0xaa - Init {stage}"
_CLOSED = "NCCL WARN socketProgress: Connection closed by remote peer gpu-{h}<4{r:04d}>"
_RESET = "NCCL WARN socketProgressOpt: Call to recv from 10.0.0.{h}<4{r:04d}> failed : Connection reset by peer"
_TIMED_OUT = "[rank{r}]:[E1130 04:20:{s:02d}.100000000 ProcessGroupNCCL.cpp:683] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=700, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600010 milliseconds before timing out."


def _log(rank: int, *last: tuple[str, str]) -> str:
    """The log of a rank that was set up, and what it says last: (time, message) of NCCL, or a whole line without time."""
    host, device = rank // _PER_HOST + 1, rank % _PER_HOST
    head = f"gpu-{host}:{1000 + rank}:{1000 + rank} [{device}] "
    lines = [
        f"[2026-11-30 04:00:00] {head}NCCL INFO "
        + _START.format(r=rank, d=device, bus=f"{device + 1}b", stage=stage)
        for stage in ("START", "COMPLETE")
    ]
    for time, text in last:
        lines.append(f"[2026-11-30 {time}] {head}{text}" if time else text)
    return "\n".join(lines) + "\n"


def _write(folder: Path, last: dict[int, list[tuple[str, str]]]) -> None:
    for rank in range(_RANKS):
        host = rank // _PER_HOST + 1
        (folder / f"nccl_gpu-{host}_{1000 + rank}.log").write_text(_log(rank, *last.get(rank, [])))


def _others(culprit: int, *, timeouts: bool = True) -> dict[int, list[tuple[str, str]]]:
    """What all other ranks say: closed and reset connections, then time-outs."""
    host = culprit // _PER_HOST + 1
    found: dict[int, list[tuple[str, str]]] = {}
    for rank in range(_RANKS):
        if rank == culprit:
            continue
        wording = _CLOSED if rank % 2 else _RESET
        found[rank] = [(f"04:10:{rank % 50 + 5:02d}", wording.format(h=host, r=culprit))]
        found[rank].append((f"04:10:{rank % 50 + 5:02d}", "NCCL INFO transport/net.cc:1130 -> 6"))
        if timeouts and rank % 5 == 0:
            found[rank].append(("", _TIMED_OUT.format(r=rank, s=rank % 50)))
    return found


def _launcher(folder: Path, culprit: int, exit_code: int) -> None:
    closing = "".join(
        f"W1130 04:20:59.000000 900 torch/distributed/elastic/multiprocessing/api.py:897] Sending process {1000 + r} closing signal SIGTERM\n"
        for r in range(
            culprit // _PER_HOST * _PER_HOST, culprit // _PER_HOST * _PER_HOST + _PER_HOST
        )
        if r != culprit
    )
    failed = f"E1130 04:21:01.000000 900 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {exit_code}) local_rank: {culprit % _PER_HOST} (pid: {1000 + culprit}) of binary: /usr/bin/python3\n"
    (folder / "launcher.out").write_text(closing + failed)


def _heads(report: Report, code: str) -> Finding:
    top = report.findings[0]
    assert report.verdict.code == code == top.code, [
        (f.code, f.role.value) for f in report.findings
    ]
    errors = [f for f in report.findings if f.severity is Severity.ERROR]
    assert [f.code for f in errors if f.role is not Role.CONSEQUENCE] == [code]
    return top


def test_one_out_of_memory_and_forty_seven_lost_connections(tmp_path: Path) -> None:
    last = _others(17)
    last[17] = [
        ("04:10:01", "include/alloc.h:228 NCCL WARN Cuda failure 2 'out of memory'"),
        ("", "[rank17]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB"),
    ]  # fmt: skip
    _write(tmp_path, last)
    _launcher(tmp_path, 17, 1)
    top = _heads(doctor.examine([str(tmp_path)]), "BUF04")
    assert top.ranks == (17,) and top.hosts == ("gpu-3",)
    assert {"NET10", "HANG04"} <= set(top.consequences)


def test_one_killed_rank_resets_timeouts_and_sigterms(tmp_path: Path) -> None:
    _write(tmp_path, _others(5))
    _launcher(tmp_path, 5, -9)
    top = _heads(doctor.examine([str(tmp_path)]), "CRASH01")
    assert top.ranks == (5,) and {"NET10", "HANG04"} <= set(top.consequences)


def test_a_gpu_that_fell_off_the_bus(tmp_path: Path) -> None:
    last = _others(30)
    last[30] = [
        ("04:10:01", "enqueue.cc:1400 NCCL WARN Cuda failure 999 'unknown error'"),
        ("", "[rank30]: RuntimeError: CUDA error: unspecified launch failure"),
    ]
    _write(tmp_path, last)
    _launcher(tmp_path, 30, 1)
    (tmp_path / "dmesg-gpu-4.txt").write_text(
        "[Mon Nov 30 04:10:00 2026] NVRM: Xid (PCI:0000:7b:00): 79, pid=1030, name=python3, GPU has fallen off the bus.\n"
        "[Mon Nov 30 04:10:00 2026] NVRM: Xid (PCI:0000:7b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)\n"
    )
    report = doctor.examine([str(tmp_path)])
    assert report.verdict.code in ("HW01", "HW05"), [
        (f.code, f.role.value) for f in report.findings
    ]
    assert any("reboot" in line for f in report.findings[:2] for line in f.remedy)
    after = {f.code for f in report.findings if f.role is Role.CONSEQUENCE}
    assert {"NET10", "HANG04", "CRASH02"} <= after


def test_a_link_that_went_down(tmp_path: Path) -> None:
    last = _others(9, timeouts=False)
    last[9] = [
        ("04:10:01", "transport/net_ib.cc:2090 NCCL WARN NET/IB: Got completion from peer 10.0.0.5<40822> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid fe80::1 remoteGids fe80::2 hca mlx5_3"),
    ]  # fmt: skip
    for rank in (34, 35):
        last[rank].insert(0, ("04:10:02", "transport/net_ib.cc:2090 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<40822> with status=5 opcode=0 len=0 vendor err 249 (Recv) hca mlx5_3"))  # fmt: skip
    _write(tmp_path, last)
    top = _heads(doctor.examine([str(tmp_path)]), "NET01")
    assert top.ranks == (9,) and "NET10" in top.consequences


@pytest.mark.parametrize("culprit", [0, 23, 47])
def test_whoever_runs_out_of_host_memory(culprit: int, tmp_path: Path) -> None:
    _write(tmp_path, _others(culprit))
    _launcher(tmp_path, culprit, -9)
    (tmp_path / "dmesg.txt").write_text(
        f"[Mon Nov 30 04:10:01 2026] Out of memory: Killed process {1000 + culprit} (python3) total-vm:81920000kB, anon-rss:64000000kB\n"
    )
    top = _heads(doctor.examine([str(tmp_path)]), "BUF07")
    assert top.ranks == (culprit,) and "CRASH01" in top.consequences
