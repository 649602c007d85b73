"""The last way to see progress: NCCL's RAS counts, for ranks that send no reports of their own."""

import threading
import time
from collections.abc import Callable

from nccldoctor.collect import ras
from nccldoctor.collect.watchdog import Look

_FRESH_SECONDS = 15.0
_PAUSE_SECONDS = 3.0


class RasWatch:
    """Asks RAS at `address` in a thread of its own, since an answer may take seconds; nothing is asked before `looks`."""

    def __init__(self, address: str, ask: Callable[..., str | None] = ras.ask) -> None:
        self._address = address
        self._ask = ask
        self._latest: tuple[float, list[Look]] = (0.0, [])
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None

    def looks(self) -> list[Look]:
        """One look for each rank that RAS has told of lately, of other hosts too; empty where nothing answers."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ras", daemon=True)
            self._thread.start()
        self._wanted.set()
        when, looks = self._latest
        return looks if time.monotonic() - when < _FRESH_SECONDS else []

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            answer = self._ask(self._address, "STATUS", form="json", seconds=3.0)
            looks = [
                Look(rank=rank, stage="group", counters=counts, waiting=True)
                for rank, counts in sorted(ras.launched(answer or "").items())
            ]
            self._latest = (time.monotonic(), looks)
            time.sleep(_PAUSE_SECONDS)
