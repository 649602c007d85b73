"""Who wrote what: processes from NCCL's headers, streams from PyTorch's rank prefixes, and which file is whose."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nccldoctor.model.digest import Digest
from nccldoctor.model.event import Event
from nccldoctor.model.events.measured import ProbeRank
from nccldoctor.model.events.nccl import CommComplete, CommStart
from nccldoctor.model.events.recorder import RecorderDump
from nccldoctor.model.events.torch import ProcessEnded, Stack
from nccldoctor.model.events.watched import ProcessEnvironment

_RANK_IN_NAME = re.compile(r"rank[_\-]?(\d+)(?:\D[^/]*)?$")


@dataclass
class Draft:
    """A process while it is being put together; `id` is its index."""

    id: int
    host: str | None = None
    pid: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    device: int | None = None
    bus_id: str | None = None
    files: set[str] = field(default_factory=set)


class Processes:
    """All processes of the input, and the process behind each event."""

    def __init__(self, digests: Sequence[Digest]) -> None:
        self.drafts: list[Draft] = []
        self._by_pid: dict[tuple[str, int], Draft] = {}
        self._pids_of_file: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self._ranks_of_file: dict[str, set[int]] = defaultdict(set)
        self._by_rank: dict[int, Draft] = {}
        for digest in digests:
            self._collect(digest)
        self._name_files(digests)
        self._meet_stacks(digests)

    def of_pid(self, host: str, pid: int) -> Draft:
        """The process with this host and pid; made when it is new."""
        draft = self._by_pid.get((host, pid))
        if draft is None:
            draft = self._by_pid[host, pid] = Draft(len(self.drafts), host=host, pid=pid)
            self.drafts.append(draft)
        return draft

    def of_rank(self, rank: int) -> Draft:
        """The process with this global rank; made, without a host, when nothing else is known of it."""
        draft = self._by_rank.get(rank)
        if draft is None:
            draft = self._by_rank[rank] = Draft(len(self.drafts), rank=rank)
            self.drafts.append(draft)
        return draft

    def known_rank(self, rank: int) -> Draft | None:
        return self._by_rank.get(rank)

    def set_rank(self, draft: Draft, rank: int) -> None:
        """Gives a process its global rank, unless another has it."""
        if draft.rank is None and rank not in self._by_rank:
            draft.rank = rank
            self._by_rank[rank] = draft

    def by_pid_alone(self, pid: int) -> Draft | None:
        """The only process with this pid, whatever its host."""
        found = [d for d in self.drafts if d.pid == pid]
        return found[0] if len(found) == 1 else None

    def attach_streams(self, digests: Iterable[Digest]) -> None:
        """Makes the files that only a rank tells belong to the process with that rank."""
        for digest in digests:
            for rank in sorted(self._ranks_of_file.get(digest.source.path, ())):
                self.of_rank(rank).files.add(digest.source.path)

    def of_event(self, event: Event) -> Draft | None:
        """The process that wrote this event: by header, else by rank prefix, else by the file being its own."""
        speaker, file = event.speaker, event.line.file
        if speaker.pid is not None:
            draft = self._by_pid.get((speaker.host or "", speaker.pid))
            if draft is None and speaker.host is None and isinstance(event, Stack):
                draft = self.by_pid_alone(speaker.pid)
            if draft is not None:
                return draft
        if speaker.rank is not None:
            return self._by_rank.get(speaker.rank)
        pids = self._pids_of_file.get(file, set())
        if len(pids) == 1:
            return self._by_pid[next(iter(pids))]
        ranks = self._ranks_of_file.get(file, set())
        if not pids and len(ranks) == 1:
            return self._by_rank.get(next(iter(ranks)))
        return None

    def _meet_stacks(self, digests: Sequence[Digest]) -> None:
        """py-spy tells a pid and no host: where nobody else has that pid, the stack makes the process known."""
        for event in (e for d in digests for e in d.events if isinstance(e, Stack)):
            pid, rank = event.speaker.pid, event.speaker.rank
            if pid is None or event.speaker.host is not None:
                continue
            if not any(draft.pid == pid for draft in self.drafts):
                self.of_pid("", pid)
            draft = self.by_pid_alone(pid)
            if draft is not None and rank is not None:
                self.set_rank(draft, rank)

    def _collect(self, digest: Digest) -> None:
        path = digest.source.path
        devices: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
        for event in digest.events:
            speaker = event.speaker
            if speaker.rank is not None and not isinstance(event, RecorderDump):
                self._ranks_of_file[path].add(speaker.rank)
            if speaker.pid is None or speaker.host is None:
                continue
            draft = self.of_pid(speaker.host, speaker.pid)
            draft.files.add(path)
            self._pids_of_file[path].add((speaker.host, speaker.pid))
            if isinstance(event, (CommStart, CommComplete)):
                draft.device = event.device if event.device is not None else draft.device
                draft.bus_id = event.bus_id or draft.bus_id
            elif speaker.device is not None and speaker.tid == speaker.pid:
                devices[speaker.host, speaker.pid][speaker.device] += 1
            if speaker.local_rank is not None:
                draft.local_rank = speaker.local_rank
            told = isinstance(event, (ProcessEnded, ProcessEnvironment, ProbeRank))
            if told and speaker.rank is not None:
                self.set_rank(draft, speaker.rank)
        for table in digest.calls:
            self.of_pid(table.host, table.pid).files.add(path)
            self._pids_of_file[path].add((table.host, table.pid))
        for key, seen in devices.items():
            if self._by_pid[key].device is None:
                self._by_pid[key].device = seen.most_common(1)[0][0]

    def _name_files(self, digests: Sequence[Digest]) -> None:
        """A file of one process that also names one rank tells that process's rank.

        A file that says nothing of its writer may still carry `rank3` in its name, as launchers name streams.
        """
        for digest in digests:
            path = digest.source.path
            pids, ranks = self._pids_of_file.get(path, set()), self._ranks_of_file.get(path, set())
            if len(pids) == 1 and len(ranks) == 1:
                self.set_rank(self._by_pid[next(iter(pids))], next(iter(ranks)))
            elif (
                not pids
                and not ranks
                and any(not isinstance(e, RecorderDump) for e in digest.events)
                and (named := _RANK_IN_NAME.search(path))
            ):
                self._ranks_of_file[path].add(int(named[1]))
