"""More ways for Gloo jobs to go wrong, of four processes: groups across each other, two faults at once, and the like."""

import datetime
import os
import signal

from tests.hang import gloo_runs
from tests.hang.gloo_runs import dist, main, steps, torch, wait_elsewhere

gloo_runs.RANKS, gloo_runs.AT_ONCE = 4, 6
ODD = 2


def _mesh(rank: int) -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    """The rank's tensor parallel group ([0, 1] or [2, 3]) and its data parallel one ([0, 2] or [1, 3])."""
    groups = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3], [0, 2], [1, 3])]
    return groups[rank // 2], groups[2 + rank % 2]


def _train(rank: int, stops: int | None, skips: int | None = None) -> None:
    tensor, data = _mesh(rank)
    for step in range(4):
        if rank == ODD and step == stops:
            wait_elsewhere()
        if not (rank == ODD and step == skips):
            dist.all_reduce(torch.ones(8 * (step + 1)), group=tensor)
        dist.all_reduce(torch.ones(64), group=data)
    dist.barrier()


def mesh_stops(rank: int) -> None:
    _train(rank, 2)


def mesh_skips(rank: int) -> None:
    _train(rank, None, 2)


def two_dead(rank: int) -> None:
    steps()
    if rank in (1, 2):
        os._exit(9)
    dist.all_reduce(torch.ones(16))


def stopped_and_raised(rank: int) -> None:
    steps()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    if rank == ODD:
        raise ValueError("bad batch 17")
    dist.all_reduce(torch.ones(16))


def ring(rank: int) -> None:
    steps()
    if rank == ODD:
        wait_elsewhere()
    for _ in range(4):  # after so many rounds nobody finds anything left to receive
        sent, received = torch.ones(8), torch.ones(8)
        calls = [
            dist.P2POp(dist.isend, sent, (rank + 1) % 4),
            dist.P2POp(dist.irecv, received, (rank - 1) % 4),
        ]
        for work in dist.batch_isend_irecv(calls):
            work.wait()


def barrier_instead(rank: int) -> None:
    steps()
    if rank == ODD:
        dist.barrier()
        wait_elsewhere()
    dist.all_reduce(torch.ones(16))


def monitored(rank: int) -> None:
    steps()
    if rank == ODD:
        wait_elsewhere()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=3), wait_all_ranks=True)


class _Broken(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        if index == 5:
            raise KeyError("no image 5")
        return index


def loader(rank: int) -> None:
    steps()
    if rank == ODD:
        list(torch.utils.data.DataLoader(_Broken(), num_workers=1))
    dist.all_reduce(torch.ones(16))


def leaves_early(rank: int) -> None:
    steps()
    if rank == ODD:
        return
    dist.all_reduce(torch.ones(16))


def other_root(rank: int) -> None:
    steps()
    dist.broadcast(torch.ones(16), 1 if rank == ODD else 0)
    dist.all_reduce(torch.ones(4))
    wait_elsewhere()


def other_type(rank: int) -> None:
    steps()
    dist.all_reduce(torch.ones(16, dtype=torch.float64 if rank == ODD else torch.int64))
    wait_elsewhere()


gloo_runs.SCENARIOS |= {
    f.__name__: f
    for f in (
        mesh_stops,
        mesh_skips,
        two_dead,
        stopped_and_raised,
        ring,
        barrier_instead,
        monitored,
        loader,
        leaves_early,
        other_root,
        other_type,
    )
}

if __name__ == "__main__":
    main()
