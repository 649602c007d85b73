"""Tells whether a launcher's task numbers are ranks or nodes, once a whole file has been read."""

from collections import defaultdict
from dataclasses import replace

from nccldoctor.model.event import Event
from nccldoctor.model.source import Speaker


class Tasks:
    """Remembers which processes spoke under which task number; `srun -l torchrun` has all of a node under one."""

    def __init__(self) -> None:
        self._devices: dict[int, dict[tuple[str, int], int | None]] = defaultdict(dict)
        self._told: set[int] = set()

    def spoke(self, speaker: Speaker) -> None:
        """An NCCL record came under a task number, which its speaker has for a rank."""
        if speaker.rank is not None and speaker.host is not None and speaker.pid is not None:
            self._devices[speaker.rank][speaker.host, speaker.pid] = speaker.device

    def told(self, index: int) -> None:
        """The event of this index has its rank from a task number."""
        self._told.add(index)

    def corrected(self, events: list[Event]) -> list[Event]:
        """The events, without ranks that were nodes: one task with processes on several devices is a node."""
        if not any(self._is_node(processes) for processes in self._devices.values()):
            return events
        return [
            replace(event, speaker=replace(event.speaker, rank=None)) if i in self._told else event
            for i, event in enumerate(events)
        ]

    @staticmethod
    def _is_node(processes: dict[tuple[str, int], int | None]) -> bool:
        return len(processes) > 1 and len({d for d in processes.values() if d is not None}) > 1
