"""Global ranks and communicators come out right, whatever tells them."""

from pathlib import Path

from nccldoctor import doctor
from nccldoctor.model.job import Job


def _job(tmp_path: Path, **files: str) -> Job:
    for name, text in files.items():
        (tmp_path / f"{name}.log").write_text(text)
    return doctor.examine([str(tmp_path)]).jobs[0]


def _init(host: str, pid: int, device: int, comm: str, rank: int, size: int, ident: str) -> str:
    head = f"{host}:{pid}:{pid} [{device}] NCCL INFO ncclCommInitRank comm {comm} rank {rank} nranks {size}"
    tail = f"cudaDev {device} nvmlDev {device} busId {device + 6}0 commId {ident}"
    return f"{head} {tail} - Init START\n{head} {tail} - Init COMPLETE\n"


def _ranks(job: Job) -> dict[int | None, int | None]:
    return {p.pid: p.rank for p in job.processes}


def test_world_communicator_gives_global_ranks(tmp_path: Path) -> None:
    job = _job(
        tmp_path,
        a=_init("b-host", 11, 0, "0x1", 0, 2, "0xaa"),
        b=_init("a-host", 12, 0, "0x1", 1, 2, "0xaa"),
    )
    assert _ranks(job) == {11: 0, 12: 1}
    assert job.world_size == 2


def test_tp_and_dp_groups_without_a_world_give_the_only_order(tmp_path: Path) -> None:
    files = {}
    for host in range(2):
        for device in range(2):
            pid = 10 * host + device + 1
            files[f"p{pid}"] = _init(
                f"h{host}", pid, device, "0x1", device, 2, f"0xa{host}"
            ) + _init(f"h{host}", pid, device, "0x2", host, 2, f"0xd{device}")
    assert _ranks(_job(tmp_path, **files)) == {1: 0, 2: 1, 11: 2, 12: 3}


def test_unordered_groups_stay_without_global_ranks(tmp_path: Path) -> None:
    job = _job(
        tmp_path,
        a=_init("h0", 1, 0, "0x1", 0, 2, "0xa0"),
        b=_init("h0", 2, 1, "0x1", 1, 2, "0xa0"),
        c=_init("h1", 3, 0, "0x1", 0, 2, "0xa1"),
        d=_init("h1", 4, 1, "0x1", 1, 2, "0xa1"),
    )
    assert set(_ranks(job).values()) == {None}


def test_rank_prefix_beats_the_communicator(tmp_path: Path) -> None:
    job = _job(
        tmp_path,
        a="[rank4]: hello\n[rank4]:"
        + _init("h0", 1, 0, "0x1", 0, 2, "0xa0").replace("\n", "\n[rank4]:", 1),
        b="[rank5]: hello\n[rank5]:"
        + _init("h0", 2, 1, "0x1", 1, 2, "0xa0").replace("\n", "\n[rank5]:", 1),
    )
    assert _ranks(job) == {1: 4, 2: 5}
    assert job.global_rank("0xa0", 1) == 5


def test_pointer_reused_after_destroy_is_another_communicator(tmp_path: Path) -> None:
    text = _init("h0", 1, 0, "0x1", 0, 1, "0xaa") + _init("h0", 1, 0, "0x1", 0, 1, "0xbb")
    job = _job(tmp_path, a=text)
    assert {c.id for c in job.communicators} == {"0xaa", "0xbb"}


def test_old_versions_without_comm_id_join_by_size_and_order(tmp_path: Path) -> None:
    line = "h0:{pid}:{pid} [{d}] NCCL INFO comm 0x5 rank {d} nranks 2 cudaDev {d} busId 1b000 - Init COMPLETE\n"
    job = _job(tmp_path, a=line.format(pid=1, d=0), b=line.format(pid=2, d=1))
    assert [c.size for c in job.communicators] == [2]
    assert _ranks(job) == {1: 0, 2: 1}


def test_a_restart_on_the_same_gpus_is_another_job(tmp_path: Path) -> None:
    first = _init("h0", 1, 0, "0x1", 0, 2, "0xa0") + _init("h0", 2, 1, "0x1", 1, 2, "0xa0")
    second = _init("h0", 7, 0, "0x1", 0, 2, "0xb0") + _init("h0", 8, 1, "0x1", 1, 2, "0xb0")
    (tmp_path / "all.log").write_text(first + second)
    jobs = doctor.examine([str(tmp_path)]).jobs
    assert [[p.pid for p in job.processes] for job in jobs] == [[1, 2], [7, 8]]
    assert all(job.siblings == 2 and job.world_size == 2 for job in jobs)


def test_groups_on_other_gpus_are_of_the_same_job(tmp_path: Path) -> None:
    job = _job(
        tmp_path,
        a=_init("h0", 1, 0, "0x1", 0, 2, "0xa0") + _init("h0", 2, 1, "0x1", 1, 2, "0xa0"),
        b=_init("h1", 3, 0, "0x1", 0, 2, "0xa1") + _init("h1", 4, 1, "0x1", 1, 2, "0xa1"),
    )
    assert len(job.processes) == 4
