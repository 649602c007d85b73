"""Some ranks create a process group, and others of its members do not.

`new_group` must be called by all ranks of the job, in the same order, even by those that are not members (unless
`use_local_synchronization=True`): PyTorch counts the groups on each rank, and the counter is the group's name. A rank
that leaves one out waits for nobody, while the others stand in new_group; or it goes on with names that no longer
match, and its later groups have other members than the others think.
Groups of one name with other, disjoint members are normal: sub-groups are made so.
"""

import re
from collections.abc import Iterable, Sequence

from nccldoctor.diagnose import places
from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.store_keys import out_of_step
from nccldoctor.diagnose.words import lines, ranges, who_ranks
from nccldoctor.model.events.recorder import RecorderDump
from nccldoctor.model.events.torch import PythonException, Stack, StackFrame
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job
from nccldoctor.model.source import Line

code = "INIT10"
name = "group-created-by-some-ranks"
severity = Severity.ERROR
needs = (Evidence.STACKS, Evidence.RECORDER, Evidence.OUTPUT)
explains = ("HANG01", "HANG02", "HANG04", "INIT03", "COLL03", "CRASH01")
confirm = (
    "TORCH_DISTRIBUTED_DEBUG=DETAIL TORCH_CPP_LOG_LEVEL=INFO torchrun …  # each rank then logs the groups that it makes, in order; for one run",
)
remedy = (
    "groups = [dist.new_group(r) for r in all_rank_lists]  # on every rank, members or not, in the same order; costs a moment at start",
    "dist.new_group(ranks, use_local_synchronization=True)  # then only its members need to call it; costs nothing",
    "torch.distributed.device_mesh.init_device_mesh('cuda', (2, 4))  # makes all groups alike on all ranks; costs a change in the program",
)
_CREATING = frozenset(
    {
        "new_group",
        "_new_group_with_tag",
        "_new_process_group_helper",
        "_store_based_barrier",
        "split_group",
    }
)
_BARRIER = re.compile(
    r"store based barrier on rank:? ?(?P<rank>\d+), for key: store_based_barrier_key:(?P<group>\w{0,80}) \("
    r"world_size=(?P<size>\d+), (?P<counter>num_workers_joined|worker_count)=(?P<joined>\d+)"
)


def check(job: Job) -> Iterable[Found]:
    """By where the ranks stand, else by the store's keys or PyTorch's own barrier, else by groups that dumps disagree on."""
    found = _by_stacks(job) or out_of_step(job) or _by_barrier(job) or _by_dumps(job)
    if found is not None:
        yield found


def _creates(frames: Sequence[StackFrame]) -> bool:
    inner = [f for f in frames if not places.is_user(f) and "distributed" in f.file]
    if any(f.function == "init_process_group" for f in inner):  # the first group: INIT01
        return False
    return any(f.function in _CREATING and "distributed" in f.file for f in inner)


def _by_stacks(job: Job) -> Found | None:
    stacks = places.stacks(job)
    inside = {p: s for p, s in stacks.items() if _creates(s.frames)}
    outside = {p: s for p, s in stacks.items() if p not in inside}
    if not inside or not outside:
        return None
    waiting = sorted(r for p in inside if (r := job.processes[p].rank) is not None)
    absent = sorted(r for p in outside if (r := job.processes[p].rank) is not None)
    where = places.grouped(places.positions(job, [*waiting, *absent], {}))
    return Found(
        title=(
            f"{who_ranks(absent, job.hosts_of_ranks(absent), 'Some ranks')} did not call new_group, in which "
            f"rank{'s' * (len(waiting) != 1)} {ranges(waiting)} wait{'s' * (len(waiting) == 1)}"
            + (f" ({where})" if where else "")
        ),
        evidence=_stack_lines([*outside.values(), *inside.values()]),
        confidence=Confidence.HIGH if absent else Confidence.MEDIUM,
        ranks=tuple(absent),
        hosts=job.hosts_of_ranks(absent),
    )


def _stack_lines(stacks: Sequence[Stack]) -> tuple[Line, ...]:
    return tuple(dict.fromkeys(s.line for s in stacks))[:4]


def _by_barrier(job: Job) -> Found | None:
    told = [(e, m) for e in job.events(PythonException) if (m := _BARRIER.search(e.message))]
    errors = [(e, m) for e, m in told if not _is_default(m["group"], m["counter"])]
    if not errors:
        return None
    size = int(errors[0][1]["size"])
    came = {int(match["rank"]) for _, match in errors}
    absent = sorted(set(range(size)) - came)
    known = len(absent) <= size - int(errors[0][1]["joined"])
    waited = f"rank{'s' * (len(came) > 1)} {ranges(came)} of {size} waited in the creation of a process group"
    if known:
        title = f"{who_ranks(absent, job.hosts_of_ranks(absent))} did not call new_group: {waited}"
    else:
        title = f"{waited[0].upper()}{waited[1:]}: {errors[0][1]['joined']} came"
    return Found(
        title=title,
        evidence=lines(e for e, _ in errors),
        confidence=Confidence.MEDIUM,
        ranks=tuple(absent) if known else (),
        hosts=job.hosts_of_ranks(absent) if known else (),
    )


def _is_default(group: str, counter: str) -> bool:
    """Is it the group of init_process_group? Up to PyTorch 2.0 groups count from 1, and the key ends in their number."""
    return group in ("0", "default_pg", "") or (group == "1" and counter == "worker_count")


def _by_dumps(job: Job) -> Found | None:
    """A member of a group, as other members' dumps tell, whose own dump has no such group or another one."""
    dumps = {d.speaker.rank: d for d in job.events(RecorderDump) if d.speaker.rank is not None}
    told: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for rank, dump in sorted(dumps.items()):
        for group in dump.groups:
            if rank in group.ranks:
                told.setdefault((group.name, group.ranks), []).append(rank)
    for (group_name, members), creators in sorted(told.items()):
        absent = [r for r in members if r in dumps and r not in creators]
        if not absent or not all(any(g.ranks for g in dumps[r].groups) for r in absent):
            continue
        others = sorted(
            {g.ranks for r in absent for g in dumps[r].groups if g.name == group_name and g.ranks}
        )
        instead = f", which there has ranks {ranges(others[0])}" if others else ""
        return Found(
            title=(
                f"{who_ranks(absent, job.hosts_of_ranks(absent))} never created group {group_name} of ranks "
                f"{ranges(members)}, as rank{'s' * (len(creators) > 1)} {ranges(creators)} did{instead}"
            ),
            evidence=tuple(dumps[r].line for r in [*absent[:2], *creators[:2]]),
            confidence=Confidence.MEDIUM,
            ranks=tuple(absent),
            hosts=job.hosts_of_ranks(absent),
        )
    return None


_FRAME = (
    '  File "/usr/lib/python3/site-packages/torch/distributed/distributed_c10d.py", line {} in {}\n'
)


def _stack(rank: int, *frames: str) -> str:
    return "".join(
        f"[rank{rank}]: {line}\n"
        for line in ("Current thread 0x00007f00 (most recent call first):", *frames)
    )


_USER = '  File "/home/user/train.py", line {} in main'
_KEY = "[rank{}]: torch.distributed.DistStoreError: wait timeout after 6000ms, keys: /default_pg/0//{}//cpu//0/{}\n"
fires_on = {
    "store keys of one group": _KEY.format(0, 2, 2) + _KEY.format(1, 2, 2),
    "store keys of two groups": _KEY.format(0, 3, 1) + _KEY.format(1, 2, 2) + _KEY.format(2, 3, 1),
    "stacks": (
        _stack(0, _FRAME.format(5863, "new_group").rstrip(), _USER.format(20))
        + _stack(1, _FRAME.format(3252, "all_reduce").rstrip(), _USER.format(31))
    ),
}
silent_on = {
    "a key of the first group": "[rank1]: torch.distributed.DistStoreError: wait timeout after 6000ms, keys: /default_pg/0//cpu//0/0",
    "all create it": (
        _stack(0, _FRAME.format(5863, "new_group").rstrip(), _USER.format(20))
        + _stack(1, _FRAME.format(5863, "new_group").rstrip(), _USER.format(20))
    ),
}
