"""How a rank of the probe tells what it does: to its supervisor in a file, to the other ranks through the store."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

EXCHANGE_SECONDS = 600


class Records:
    """The file of JSON lines that this rank writes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self.kept: list[dict[str, Any]] = []

    def write(self, kind: str, **facts: Any) -> None:
        if kind in ("row", "rank"):
            self.kept.append({"kind": kind, **facts})
        self._file.write(json.dumps({"kind": kind, **facts}) + "\n")
        self._file.flush()


class Exchange:
    """Small facts between ranks through the store, so that they pass also where a collective is broken."""

    def __init__(self, store: Any, rank: int, world: int) -> None:
        self.store, self.rank, self.world = store, rank, world
        store.set_timeout(timedelta(seconds=EXCHANGE_SECONDS))

    def all(self, key: str, mine: dict[str, Any]) -> list[dict[str, Any]]:
        """What every rank says under this key; waits for all."""
        self.tell(key, mine)
        return [json.loads(self.store.get(f"{key}/{rank}")) for rank in range(self.world)]

    def tell(self, key: str, mine: dict[str, Any]) -> None:
        self.store.set(f"{key}/{self.rank}", json.dumps(mine))

    def decide(self, key: str, choice: bool) -> bool:
        """Rank 0's choice, on every rank."""
        if self.rank == 0:
            self.store.set(key, "1" if choice else "0")
        return bool(self.store.get(key) == b"1")
