"""/dev/shm and locked memory: what connections need, against what nccldoctor run saved of the host."""

import json
from pathlib import Path

import pytest

from nccldoctor import doctor
from nccldoctor.knowledge.buffers import segment
from nccldoctor.model.finding import Confidence, Finding

_START = "gpu-1:7{r}:7{r} [{r}] NCCL INFO ncclCommInitRank comm 0x{r}1 rank {r} nranks 2 cudaDev {r} nvmlDev {r} busId {r}0 commId 0xaa - Init START\n"
_SHM = "gpu-1:7{r}:7{r} [{r}] NCCL INFO Channel {c:02d}/0 : {r}[{r}] -> {o}[{o}] via SHM/direct/direct\n"
_IB = (
    "gpu-1:7{r}:7{r} [{r}] NCCL INFO Channel {c:02d}/0 : {r}[{r}] -> {o}[{o}] [send] via NET/IB/0\n"
)


def _saved(folder: Path, *, shm: tuple[int, int], memlock: str, exit_code: int = 1) -> None:
    body = {
        "nccldoctor": "snapshot",
        "schema": 1,
        "host": "gpu-1",
        "exits": [{"rank": 0, "pid": 70, "host": "gpu-1", "exit_code": exit_code, "first": True}],
        "host_state": {
            "shared_memory": {"size_bytes": shm[0], "free_bytes": shm[1]},
            "processes": [{"pid": 70, "limits": {"memlock": memlock}}],
        },
    }
    (folder / "evidence.json").write_text(json.dumps(body))


def _log(folder: Path, edge: str, channels: int, last: str = "") -> None:
    for r in (0, 1):
        lines = [_START.format(r=r)]
        lines += [edge.format(r=r, o=1 - r, c=c) for c in range(channels)]
        (folder / f"rank{r}.log").write_text("".join(lines) + (last if r == 0 else ""))


def _found(folder: Path, code: str) -> Finding | None:
    findings = doctor.examine([str(folder)]).findings
    return next((f for f in findings if f.code == code), None)


def test_a_segment_has_the_size_that_nccl_complains_of() -> None:
    assert segment({}) == 9637888


@pytest.mark.parametrize(
    ("size", "free", "code", "told"),
    [
        (64 << 20, 1 << 20, -7, True),
        (64 << 20, 32 << 20, 135, True),  # eight channels each way need more than it is large
        (16 << 30, 15 << 30, -7, False),
        (64 << 20, 1 << 20, 1, False),
    ],
)
def test_a_bus_error_on_a_small_shm(
    size: int, free: int, code: int, told: bool, tmp_path: Path
) -> None:
    _log(tmp_path, _SHM, 8)
    _saved(tmp_path, shm=(size, free), memlock="unlimited", exit_code=code)
    found = _found(tmp_path, "BUF01")
    assert (found is not None) is told
    if found:
        assert "64 MiB" in found.title and "need about 147.1 MiB" in found.title


_FULL = "gpu-1:70:70 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-Y3cmX5 to 9637892 bytes, error: No space left on device (28)\n"
_LOCK = "gpu-1:70:70 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory errno 12\n"


def test_the_complaint_is_set_against_what_the_host_has(tmp_path: Path) -> None:
    _log(tmp_path, _SHM, 4, _FULL)
    _saved(tmp_path, shm=(64 << 20, 8 << 20), memlock="unlimited")
    found = _found(tmp_path, "BUF01")
    assert found is not None and "it has 64 MiB, 8 MiB free" in found.title
    assert any("/dev/shm: 67108864" in line.text for line in found.evidence)


def test_a_limit_of_locked_memory_is_named(tmp_path: Path) -> None:
    _log(tmp_path, _IB, 4, _LOCK)
    _saved(tmp_path, shm=(16 << 30, 15 << 30), memlock="65536")
    found = _found(tmp_path, "NET08")
    assert found is not None and found.confidence is Confidence.HIGH
    assert "64 KiB" in found.title and "need about" in found.title


def test_without_a_limit_it_is_the_device(tmp_path: Path) -> None:
    _log(tmp_path, _IB, 4, _LOCK)
    _saved(tmp_path, shm=(16 << 30, 15 << 30), memlock="unlimited")
    found = _found(tmp_path, "NET08")
    assert found is not None and found.confidence is Confidence.MEDIUM
    assert "device's own tables" in found.title and "ulimit" not in " ".join(found.remedy)


def test_small_limits_of_a_job_that_works_are_no_fault(tmp_path: Path) -> None:
    _log(tmp_path, _IB, 4)
    _saved(tmp_path, shm=(64 << 20, 1 << 20), memlock="65536", exit_code=0)
    assert _found(tmp_path, "NET08") is None and _found(tmp_path, "BUF01") is None


def test_the_report_has_what_buffers_take(tmp_path: Path) -> None:
    _log(
        tmp_path,
        _SHM,
        4,
        "gpu-1:70:70 [0] NCCL INFO NCCL_BUFFSIZE set by environment to 8388608.\n",
    )
    _saved(tmp_path, shm=(64 << 20, 8 << 20), memlock="65536")
    buffers = doctor.examine([str(tmp_path)]).facts[0]["buffers"]
    assert buffers["set"] == [{"name": "NCCL_BUFFSIZE", "bytes": 8388608, "ranks": [0]}]
    (host,) = buffers["hosts"]
    assert host["shared_need"] == 8 * segment({"NCCL_BUFFSIZE": 8388608})
    assert (host["shared_size"], host["shared_free"]) == (64 << 20, 8 << 20)
    assert host["locked_limit"] == 65536 and host["locked_need"] == 0


def test_a_recorded_run_has_its_communicators_memory() -> None:
    sample = Path(__file__).parent.parent / "sample_logs" / "2.28.9-fallback-seed"
    buffers = doctor.examine([str(sample)]).facts[0]["buffers"]
    one = buffers["communicators"][0]
    assert one["channels"] == 1 and one["gpu_bytes"] > one["gpu_bytes_default"]
