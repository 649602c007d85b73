"""This rank's device, and what is known of it: PyTorch's and NCCL's versions, name, bus id, free memory."""

import ctypes
import os
import socket
from typing import Any

from nccldoctor.collect.probe import plan


def choose(torch: Any, settings: plan.Settings) -> tuple[Any, dict[str, Any]]:
    """This rank's device, and what is known of it."""
    facts: dict[str, Any] = {
        "host": socket.gethostname().partition(".")[0],  # as NCCL names it in its logs
        "pid": os.getpid(),
        "torch": torch.__version__,
        "backend": settings.backend,
    }
    if settings.device != "cuda":
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        local_world = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
        return torch.device("cpu"), {**facts, "device": "CPU", "free": free // local_world}
    index = int(os.environ.get("NCCLDOCTOR_PROBE_DEVICE", os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(index)
    properties = torch.cuda.get_device_properties(index)
    return torch.device("cuda", index), {
        **facts,
        "nccl": ".".join(map(str, nccl_version(torch))),
        "cuda": torch.version.cuda or torch.version.hip,
        "device": properties.name,
        "uuid": f"GPU-{properties.uuid}" if hasattr(properties, "uuid") else None,
        "bus_id": _bus_id(properties),
        "free": torch.cuda.mem_get_info(index)[0],
    }


def nccl_version(torch: Any) -> tuple[int, ...]:
    """The version of the NCCL or RCCL in this process; torch tells only which one it was built with."""
    for name in ("libnccl.so.2", "librccl.so.1"):
        number = ctypes.c_int()
        try:
            library = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
            failed = library.ncclGetVersion(ctypes.byref(number))
        except (OSError, AttributeError):
            continue
        if not failed:
            return plan.version_of(number.value)
    return tuple(torch.cuda.nccl.version())


def _bus_id(properties: Any) -> str | None:
    if not hasattr(properties, "pci_bus_id"):
        return None
    domain = getattr(properties, "pci_domain_id", 0)
    return f"{domain:08x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
