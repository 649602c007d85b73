"""Maps a function over inputs: here, over processes of this machine, or over a Dask cluster; same results, same order."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from nccldoctor.errors import DoctorError

FIRST_WORKER_SECONDS = 600
"""How long a job may wait in Slurm's queue."""

T = TypeVar("T")
R = TypeVar("R")

Lost = Callable[[T, str], R]
"""Makes the result of an input whose worker was lost, from the input and the reason."""


def spread(
    function: Callable[[T], R],
    items: Sequence[T],
    lost: Lost[T, R],
    executor: Executor | None = None,
) -> Iterator[R]:
    """Results in the order of the items, whoever makes them.

    A worker that dies (out of memory, killed) loses the item that it was at, and that one only: what else it had
    before it is done again, each item in a process of its own.
    """
    if executor is None:
        yield from map(function, items)
        return
    futures = [executor.submit(function, item) for item in items]
    for item, future in zip(items, futures, strict=True):
        try:
            yield future.result()
        except BrokenExecutor:
            yield _alone(function, item, lost)
        except (
            Exception
        ) as error:  # what a remote worker raises when it is lost is its engine's own
            yield lost(item, f"the worker that read it failed: {type(error).__name__}: {error}")


def processes(workers: int) -> AbstractContextManager[Executor | None]:
    """Processes of this machine; none for one worker."""
    if workers < 2:
        return nullcontext(None)
    from concurrent.futures import ProcessPoolExecutor

    return ProcessPoolExecutor(workers)


def dask(
    scheduler: str | None, workers: int, slurm: int | None = None
) -> AbstractContextManager[Executor | None]:
    """A Dask cluster as an executor: the one at `scheduler` (tcp://…), `slurm` Slurm jobs, or processes of this machine.

    Files must have the same paths on the cluster's workers. Raises DoctorError when Dask is not installed or the
    scheduler does not answer.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise DoctorError("Dask is not installed: pip install 'nccldoctor[dask]'") from error
    if slurm is None:
        return _Cluster(Client, LocalCluster, scheduler, workers)
    return _Cluster(Client, _in_slurm, None, slurm)


def _in_slurm(n_workers: int, **_: Any) -> Any:
    """Slurm jobs of one worker each, as dask-jobqueue's configuration (`jobqueue.slurm`) describes them.

    Cores and memory have defaults here; queue, account and interface are the site's. Raises DoctorError.
    """
    try:
        from dask import config
        from dask_jobqueue import SLURMCluster
    except ImportError as error:
        raise DoctorError("dask-jobqueue is not installed: pip install dask-jobqueue") from error
    if shutil.which("sbatch") is None:
        raise DoctorError("There is no sbatch here: start nccldoctor on a host that submits jobs")
    given: dict[str, Any] = {"cores": 1, "processes": 1, "memory": "2GB"}
    given = {name: config.get(f"jobqueue.slurm.{name}", None) or own for name, own in given.items()}
    cluster = SLURMCluster(**given, scheduler_options={"dashboard": False})
    cluster.scale(jobs=n_workers)
    return cluster


class _Cluster(AbstractContextManager["Executor | None"]):
    def __init__(self, client: Any, local: Any, scheduler: str | None, workers: int) -> None:
        self._make_client, self._make_local = client, local
        self._scheduler, self._workers = scheduler, workers
        self._open: list[Any] = []

    def __enter__(self) -> Executor:
        address: Any = self._scheduler
        if address is None:
            address = self._make_local(
                n_workers=self._workers, threads_per_worker=1, dashboard_address=None
            )
            self._open.append(address)
        try:
            client = self._make_client(address, timeout="10s")
        except (OSError, ValueError) as error:
            raise DoctorError(
                f"The Dask scheduler {self._scheduler} does not answer: {error}"
            ) from error
        self._open.append(client)
        self._wait_for_a_worker(client)
        executor: Executor = client.get_executor(pure=False)
        return executor

    def _wait_for_a_worker(self, client: Any) -> None:
        try:
            client.wait_for_workers(1, timeout=FIRST_WORKER_SECONDS)
        except TimeoutError as error:
            self.__exit__()
            raise DoctorError(
                f"No worker came to the Dask scheduler within {FIRST_WORKER_SECONDS} s; look at its queue"
            ) from error

    def __exit__(self, *_: object) -> None:
        for part in reversed(self._open):
            part.close()


def _alone(function: Callable[[T], R], item: T, lost: Lost[T, R]) -> R:
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(1) as pool:
        try:
            return pool.submit(function, item).result()
        except BrokenExecutor:
            return lost(item, "the process that read it died, perhaps for want of memory")
