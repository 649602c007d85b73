"""Puts the parts of rotated logs into order, and joins the call tables that go on from one part to the next."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TypeVar

from nccldoctor.model.calls import CallTable
from nccldoctor.model.digest import Digest
from nccldoctor.model.events.nccl import CommComplete, CommGone, CommStart

K = TypeVar("K")
Pointer = tuple[str, int, str]
"""Host, pid and address of a communicator."""

_PACKED = r"(?:\.(?:gz|xz|bz2|zst))?$"
_NUMBERED = re.compile(r"[.\-_](\d{1,3})" + _PACKED)
_DATED = re.compile(r"[.\-_](\d{4}-?\d\d-?\d\d[-_T\d]{0,16})" + _PACKED)
_LATEST = datetime.max.replace(tzinfo=timezone.utc)


def rejoin(digests: Sequence[Digest]) -> list[Digest]:
    """The digests, parts of one log oldest first, with each communicator's calls in one table.

    A part goes on where its process calls on a communicator that another file, and not this one, has seen set up. A
    restart sets its communicators up itself and is never joined, nor is a copy of another file's end. Tables with a hole
    inside are left out: nobody can count across it.
    """
    digests = [replace(d, calls=tuple(t for t in d.calls if not t.holed)) for d in digests]
    opened = [_pointers(digest, (CommStart, CommComplete)) for digest in digests]
    sets = _sets(digests, opened)
    order = list(range(len(digests)))
    for files in sets:
        places = sorted(files)
        for place, index in zip(places, _oldest_first(files, digests, opened), strict=True):
            order[place] = index
    joined: dict[int, tuple[CallTable, ...]] = {}
    for files in _merged([*sets, *_reopened(opened)]):
        joined |= _join([i for i in order if i in files], digests, opened)
    return [replace(digests[i], calls=joined.get(i, digests[i].calls)) for i in order]


def _pointers(digest: Digest, kinds: tuple[type, ...]) -> Counter[Pointer]:
    """How often the file tells that of each communicator; a START with its COMPLETE is once."""
    found: dict[type, Counter[Pointer]] = defaultdict(Counter)
    for event in digest.events:
        if type(event) in kinds and isinstance(event, (CommStart, CommGone)):
            speaker = event.speaker
            found[type(event)][speaker.host or "", speaker.pid or 0, event.comm] += 1
    merged: Counter[Pointer] = Counter()
    for counter in found.values():
        merged |= counter
    return merged


def _key(table: CallTable) -> Pointer:
    return table.host, table.pid, table.comm


def _goes_on(table: CallTable, opened: Mapping[Pointer, int]) -> bool:
    """Do these calls follow no set-up in their own file?"""
    return table.generation < 0 or not opened.get(_key(table))


def _sets(digests: Sequence[Digest], opened: Sequence[Mapping[Pointer, int]]) -> list[set[int]]:
    """Files that go on with each other's communicators."""
    homes: dict[Pointer, set[int]] = defaultdict(set)
    for index, (digest, here) in enumerate(zip(digests, opened, strict=True)):
        for pointer in {*here, *map(_key, digest.calls)}:
            homes[pointer].add(index)
    sets: list[set[int]] = []
    for index, digest in enumerate(digests):
        for table in digest.calls:
            if not _goes_on(table, opened[index]):
                continue
            others = homes[_key(table)] - {index}
            if any(opened[other].get(_key(table)) for other in others):
                sets.append({index, *others})
    return _merged(sets)


def _reopened(opened: Sequence[Mapping[Pointer, int]]) -> list[set[int]]:
    """Files that set up a communicator at the same address of the same process: its generations count through them."""
    homes: dict[Pointer, set[int]] = defaultdict(set)
    for index, here in enumerate(opened):
        for pointer in here:
            homes[pointer].add(index)
    return [files for files in homes.values() if len(files) > 1]


def _merged(sets: Iterable[set[int]]) -> list[set[int]]:
    found: list[set[int]] = []
    for files in sets:
        apart = []
        for other in found:
            if other & files:
                files = files | other
            else:
                apart.append(other)
        found = [*apart, files]
    return found


def _oldest_first(
    files: set[int], digests: Sequence[Digest], opened: Sequence[Mapping[Pointer, int]]
) -> list[int]:
    """By set-up and destruction, then by the times of the lines, NCCL's own numbers, and at last the files' names."""
    shared = {_key(t) for i in files for t in digests[i].calls if _goes_on(t, opened[i])}

    def stage(index: int) -> int:
        gone = _pointers(digests[index], (CommGone,))
        return 0 if shared & opened[index].keys() else 2 if shared & gone.keys() else 1

    times = {i: _first_time(digests[i]) for i in files}
    counts = {i: max((t.last_op_count or 0 for t in digests[i].calls), default=0) for i in files}
    timed = all(times.values())
    counted = len(set(counts.values())) == len(files) and all(
        counts[i] for i in files if digests[i].calls
    )
    return sorted(
        files,
        key=lambda i: (
            stage(i),
            (times[i] or _LATEST) if timed else _LATEST,
            counts[i] if counted else 0,
            _age(digests[i].source.path),
            i,
        ),
    )


def _first_time(digest: Digest) -> datetime | None:
    return min((e.speaker.time for e in digest.events if e.speaker.time is not None), default=None)


def _age(path: str) -> tuple[int, int, str]:
    """logrotate's names, oldest first: `.2.gz` before `.1`, dates as they come, the bare name last."""
    if dated := _DATED.search(path):
        return 0, 0, dated[1]
    if numbered := _NUMBERED.search(path):
        return 0, -int(numbered[1]), ""
    return 1, 0, ""


def _join(
    files: Sequence[int], digests: Sequence[Digest], opened: Sequence[Mapping[Pointer, int]]
) -> dict[int, tuple[CallTable, ...]]:
    """Each file's tables; one that goes on is joined to what it follows, in the file where that began."""
    kept: dict[int, list[CallTable]] = {index: [] for index in files}
    current: dict[Pointer, tuple[int, int]] = {}
    before: Counter[Pointer] = Counter()
    for index in files:
        for table in digests[index].calls:
            pointer = _key(table)
            if _goes_on(table, opened[index]) and pointer in current:
                home, place = current[pointer]
                kept[home][place] = _joined(kept[home][place], table)
                continue
            numbered = replace(table, generation=max(table.generation, 0) + before[pointer])
            current[pointer] = index, len(kept[index])
            kept[index].append(numbered)
        before.update(opened[index])
    return {index: tuple(tables) for index, tables in kept.items()}


def _joined(first: CallTable, then: CallTable) -> CallTable:
    """Both tables as one; the first alone where the other only repeats its end."""
    if _repeats(first, then):
        return first
    earlier = (*first.earlier, replace(first, earlier=(), count=_own(first)))
    return replace(
        then if then.count else first,
        generation=first.generation,
        count=first.count + then.count,
        windows=first.windows,
        earlier=earlier if then.count else first.earlier,
        mix=_sum(first.mix, then.mix),
        peers=_sum(first.peers, then.peers),
        nranks=first.nranks or then.nranks,
    )


def _repeats(first: CallTable, then: CallTable) -> bool:
    """Is this a copy of the other file's end? Where NCCL numbers no calls, parts of one log may end alike too."""
    if not 0 < then.count <= len(first.tail) or first.tail[-then.count :] != then.tail:
        return False
    of_one_log = _stem(first.file) == _stem(then.file) and not first.last_op_count
    return first.last_text == then.last_text and not of_one_log


def _stem(path: str) -> str:
    """The file's name without what logrotate appends."""
    return _NUMBERED.sub("", _DATED.sub("", path))


def _own(table: CallTable) -> int:
    return table.count - sum(part.count for part in table.earlier)


def _sum(first: Mapping[K, int], then: Mapping[K, int]) -> dict[K, int]:
    return {key: first.get(key, 0) + then.get(key, 0) for key in {**first, **then}}
