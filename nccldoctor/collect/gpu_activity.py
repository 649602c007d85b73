"""Are the GPUs working or spinning? A kernel that waits for its peers shows full utilisation at little power."""

import importlib
from typing import Any

_BUSY_PERCENT = 90
_LOW_SHARE = 0.45


def activity() -> list[dict[str, Any]]:
    """Utilisation, memory traffic and power of each GPU now; empty where NVML is missing.

    `spinning` is True where a GPU is at least 90 % busy, moves no memory and draws under 45 % of its power limit.
    """
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


def _one(nvml: Any, index: int) -> dict[str, Any]:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    watts = nvml.nvmlDeviceGetPowerUsage(handle) / 1000
    limit = nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000
    return {
        "index": index,
        "utilization_percent": int(rates.gpu),
        "memory_percent": int(rates.memory),
        "power_watts": round(watts, 1),
        "power_limit_watts": round(limit, 1),
        "spinning": spinning(int(rates.gpu), int(rates.memory), watts, limit),
    }


def spinning(busy_percent: int, memory_percent: int, watts: float, limit_watts: float) -> bool:
    """Does a GPU wait inside a kernel? The thresholds are rules of thumb, and the facts stand beside them."""
    return (
        busy_percent >= _BUSY_PERCENT and memory_percent <= 2 and watts < _LOW_SHARE * limit_watts
    )
