"""Are the GPUs working or spinning? A kernel that waits for its peers shows full utilisation at little power."""

import importlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nccldoctor.collect import nvml as host_gpus
from nccldoctor.collect import procfs
from nccldoctor.collect.intake import RankState
from nccldoctor.collect.watchdog import Gpu

_BUSY_PERCENT = 90
_IDLE_PERCENT = 10
_LOW_SHARE = 0.45
_TRAFFIC_PERCENT = 40
_FRESH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Activity:
    """One GPU at one moment; `memory_percent` is the share of time with memory traffic, `pids` its compute processes."""

    index: int
    utilization_percent: int
    memory_percent: int
    power_watts: float
    power_limit_watts: float
    pids: tuple[int, ...] = ()

    @property
    def state(self) -> Gpu | None:
        """None between the clear cases: a kernel of low power may wait or may be bound by latency.

        On an H200 (700 W): 75 W idle, 120 W in a kernel that waits for another rank. The thresholds are rules of thumb,
        and where the state is not clear nothing is concluded.
        """
        if self.utilization_percent < _IDLE_PERCENT:
            return Gpu.IDLE
        if self.utilization_percent < _BUSY_PERCENT:
            return None
        if self.power_watts >= _LOW_SHARE * self.power_limit_watts:
            return Gpu.WORKING
        if self.memory_percent >= _TRAFFIC_PERCENT:
            return Gpu.WORKING
        return Gpu.SPINNING if self.memory_percent <= 2 else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "utilization_percent": self.utilization_percent,
            "memory_percent": self.memory_percent,
            "power_watts": round(self.power_watts, 1),
            "power_limit_watts": round(self.power_limit_watts, 1),
            "spinning": self.state is Gpu.SPINNING,
            "state": self.state.value if self.state is not None else None,
        }


def activity() -> list[Activity]:
    """All GPUs of this host now; empty where NVML is missing or a GPU does not answer."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # not installed, or no driver
        return []
    try:
        return [_one(nvml, index) for index in range(int(nvml.nvmlDeviceGetCount()))]
    except Exception:  # a GPU that is lost must not cost the evidence of the others
        return []
    finally:
        nvml.nvmlShutdown()


def _one(nvml: Any, index: int) -> Activity:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    watts = nvml.nvmlDeviceGetPowerUsage(handle) / 1000
    limit = nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000
    try:
        pids = tuple(int(p.pid) for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except Exception:  # MIG, or a driver that does not tell
        pids = ()
    return Activity(index, int(rates.gpu), int(rates.memory), watts, limit, pids)


def by_rank(
    readings: Sequence[Activity], ranks: Sequence[RankState], selection: str | None
) -> dict[int, Gpu | None]:
    """Process number of each rank → what its GPU does; ranks that share a GPU, or whose GPU is not known, are left out.

    Where NVML knows none of the process numbers (a container has its own), the local rank counts among the GPUs that
    `selection` (CUDA_VISIBLE_DEVICES) leaves visible.
    """
    of_pid = {pid: r for r in readings for pid in r.pids if len(r.pids) == 1}
    if any(state.pid in r.pids for r in readings for state in ranks):
        return {s.pid: of_pid[s.pid].state for s in ranks if s.pid in of_pid}
    visible = host_gpus.visible([{"index": r.index} for r in readings], selection)
    of_index = {r.index: r for r in readings if len(r.pids) == 1}
    found = {}
    for state in ranks:
        local = state.local_rank
        if local is not None and local < len(visible) and visible[local] in of_index:
            found[state.pid] = of_index[visible[local]].state
    return found


class Sampler:
    """Reads the GPUs in a thread of its own, since a driver in trouble may not answer at all."""

    def __init__(self) -> None:
        self._latest: tuple[float, list[Activity]] = (0.0, [])
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None

    def states(self, ranks: Sequence[RankState]) -> Mapping[int, Gpu | None]:
        """Process number → state, from the last reading if it is fresh; asks for the next one."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gpus", daemon=True)
            self._thread.start()
        self._wanted.set()
        when, readings = self._latest
        if not readings or time.monotonic() - when > _FRESH_SECONDS:
            return {}
        first = next(iter(ranks), None)
        environ = procfs.environment(first.pid) if first is not None else {}
        return by_rank(readings, ranks, environ.get("CUDA_VISIBLE_DEVICES"))

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            readings = activity()
            if not readings:  # no NVML here: not asked again
                return
            self._latest = (time.monotonic(), readings)
