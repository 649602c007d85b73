"""This file is the client of the job's key-value store (PyTorch's TCPStore) for the nccldoctor that started it.

Run as a script with the store's host and port and a name. It stands alone but for PyTorch, takes one JSON object a line on
standard input and gives one a line on standard output; it ends when its input does or when the store is gone. The keys
begin with `nccldoctor/`, and no key of the job is read or written.
"""

import ctypes
import json
import os
import select
import sys
from datetime import timedelta
from typing import Any

_BUFFER = b""


def main(host: str, port: int, name: str) -> None:
    """Joins the store and goes back and forth between it and the parent."""
    import torch.distributed as dist

    store = None
    while store is None:
        try:
            store = dist.TCPStore(
                host, port, None, False, timedelta(seconds=5), wait_for_workers=False
            )
        except Exception:
            if _commands(2.0) is None:  # the parent is gone
                return
    store = dist.PrefixStore("nccldoctor", store)
    store.add("agents", 1)
    try:
        _serve(store)
    finally:
        store.add("agents", -1)


def _serve(store: Any) -> None:
    seen, agents = 0, 0
    waiting: dict[str, bool] = {}
    while True:
        commands = _commands(0.25 if waiting else 0.5)
        if commands is None:
            return
        for command in commands:
            origin = command["origin"]
            if command["do"] == "alarm":
                number = store.add("alarms", 1)
                store.set(f"alarm/{number}", json.dumps(command["alarm"]))
                waiting[origin] = True
            elif command["do"] == "secured":
                store.add(f"secured/{origin}", 1)
        present = store.add("agents", 0)
        if present != agents:
            agents = present
            _say({"others": agents - 1})
        for number in range(seen + 1, store.add("alarms", 0) + 1):
            alarm = json.loads(store.get(f"alarm/{number}"))
            seen = number
            if not store.check([f"closed/{alarm['origin']}"]):
                waiting[alarm["origin"]] = True
                _say({"alarm": alarm})
        for origin in list(waiting):
            if store.add(f"secured/{origin}", 0) >= agents:
                store.set(f"closed/{origin}", "")
                del waiting[origin]
                _say({"secured": origin})


def _commands(seconds: float) -> "list[dict[str, Any]] | None":
    """What the parent has said within so many seconds; None when it is gone."""
    global _BUFFER
    ready, _, _ = select.select([0], [], [], seconds)
    if not ready:
        return []
    data = os.read(0, 1 << 16)
    if not data:
        return None
    *lines, _BUFFER = (_BUFFER + data).split(b"\n")
    return [json.loads(line) for line in lines]


def _say(message: "dict[str, Any]") -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: it dies with its parent, however that ends
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
