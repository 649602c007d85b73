"""Where a source's own names for a communicator lead: what lanes and alignment ask of the join."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nccldoctor.model.calls import Call, CallTable
from nccldoctor.model.job import Communicator

Seat = tuple[str, int]
"""A communicator's id, and a rank inside it."""

Reader = Callable[[CallTable, int, int], tuple[Call, ...]]
"""Re-reads calls of a table: (table, ordinal of the first from 1, how many)."""


@dataclass(frozen=True, slots=True)
class Places:
    """Communicators by id; the seat behind a call table; the communicator behind a group's name on a global rank."""

    communicators: Mapping[str, Communicator]
    of_table: Callable[[CallTable], Seat | None]
    of_group: Callable[[str, int | None], str | None]

    def seat_in_group(self, group: str, rank: int | None) -> Seat | None:
        """The seat of a global rank in the group of that name."""
        ident = self.of_group(group, rank)
        comm = self.communicators.get(ident) if ident is not None else None
        if comm is None:
            return None
        for member in comm.members:
            if member.global_rank == rank:
                return comm.id, member.rank
        return None
