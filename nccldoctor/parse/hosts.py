"""Finds the hosts that a launcher names otherwise than NCCL does, once a whole file has been read."""

from collections import defaultdict
from dataclasses import replace

from nccldoctor.model.event import Event
from nccldoctor.model.source import Speaker


class Aliases:
    """Remembers which NCCL hosts spoke under a prefix's host: a pod, an address and a hostname can be one machine."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = defaultdict(set)

    def spoke(self, prefix: Speaker, record: Speaker) -> None:
        """An NCCL record, which names its own host, came under a prefix."""
        if prefix.host is not None and record.host is not None:
            self._seen[prefix.host].add(record.host)

    def corrected(self, events: list[Event]) -> list[Event]:
        """The events with NCCL's name for a host wherever a prefix's name stands for one host only."""
        names = {
            alias: next(iter(hosts))
            for alias, hosts in self._seen.items()
            if len(hosts) == 1 and alias not in hosts
        }
        if not names:
            return events
        return [
            replace(event, speaker=replace(event.speaker, host=names[event.speaker.host]))
            if event.speaker.host in names
            else event
            for event in events
        ]
