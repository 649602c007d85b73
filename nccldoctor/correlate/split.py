"""Tells several jobs, or several attempts of one, apart before they are joined."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from nccldoctor.correlate.communicators import Communicators
from nccldoctor.correlate.processes import Draft, Processes
from nccldoctor.model.digest import Digest
from nccldoctor.model.event import Event


def split(digests: Sequence[Digest]) -> list[list[Digest]]:
    """The digests of each job, in the order in which the jobs appear.

    Processes that share a communicator are of one job. Those that share none are of one job too, unless both claim the
    same GPU of the same host or the same global rank: then one came after the other, or beside it. A process all by
    itself claims nothing: many of them are one job whose processes did not find each other.
    """
    processes = Processes(digests)
    parts = _parts(processes, Communicators(digests, processes))
    jobs = _without_collision(parts)
    if len(jobs) < 2:
        return [list(digests)]
    job_of = {draft.id: number for number, job in enumerate(jobs) for draft in job}
    return _deal(digests, processes, job_of, len(jobs))


def _parts(processes: Processes, logged: Communicators) -> list[list[Draft]]:
    """Groups of processes that communicators hold together, in the order of their first process."""
    leader = {draft.id: draft.id for draft in processes.drafts}

    def lead(index: int) -> int:
        while leader[index] != index:
            leader[index] = index = leader[leader[index]]
        return index

    for table in logged.tables.values():
        ids = sorted(seat.process.id for seat in table.seats.values())
        for other in ids[1:]:
            first, second = sorted((lead(ids[0]), lead(other)))
            leader[second] = first
    groups: dict[int, list[Draft]] = defaultdict(list)
    for draft in processes.drafts:
        groups[lead(draft.id)].append(draft)
    return [groups[key] for key in sorted(groups)]


def _without_collision(parts: Sequence[list[Draft]]) -> list[list[Draft]]:
    jobs: list[list[Draft]] = []
    claims: list[set[object]] = []
    for part in parts:
        claimed = {claim for draft in part for claim in _claims(draft)} if len(part) > 1 else set()
        for job, taken in zip(jobs, claims, strict=True):
            if not taken & claimed:
                job += part
                taken |= claimed
                break
        else:
            jobs.append(list(part))
            claims.append(claimed)
    return jobs


def _claims(draft: Draft) -> list[object]:
    claims: list[object] = []
    if draft.host and draft.bus_id:
        claims.append((draft.host, draft.bus_id))
    if draft.rank is not None:
        claims.append(draft.rank)
    return claims


def _deal(
    digests: Sequence[Digest], processes: Processes, job_of: dict[int, int], count: int
) -> list[list[Digest]]:
    """Each job's digests; a file with lines of several jobs is cut, and what nobody claims follows the line before."""
    dealt: list[list[Digest]] = [[] for _ in range(count)]
    for digest in digests:
        owners = [processes.of_event(event) for event in digest.events]
        tables = [processes.of_pid(t.host, t.pid) for t in digest.calls]
        present = sorted({job_of[d.id] for d in [*owners, *tables] if d is not None})
        if len(present) < 2:
            dealt[present[0] if present else -1].append(digest)
            continue
        events: dict[int, list[Event]] = defaultdict(list)
        current = present[0]
        for event, owner in zip(digest.events, owners, strict=True):
            current = job_of[owner.id] if owner is not None else current
            events[current].append(event)
        for number in present:
            calls = tuple(
                t for t, d in zip(digest.calls, tables, strict=True) if job_of[d.id] == number
            )
            dealt[number].append(replace(digest, events=tuple(events[number]), calls=calls))
    return dealt
