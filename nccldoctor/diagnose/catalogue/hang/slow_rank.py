"""One rank comes last to the collectives, again and again: all others wait for it at each step.

The job runs, at the pace of its slowest rank: a slower disk or data loader, a throttled GPU, a neighbour on the same
cores, more work for one rank. The time it costs is the gap between the last rank and the last but one.
Told by flight recorders, whose clocks are put right by when the same collectives ended. Warm-up, checkpoints and
compilation make single steps slow; only a rank that is last nearly every time is named.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.arrivals import stragglers
from nccldoctor.diagnose.diagnosis import Found, Sample
from nccldoctor.diagnose.words import who_ranks
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "HANG03"
name = "slow-rank"
severity = Severity.WARNING
needs = (Evidence.RECORDER,)
explains = ()
look_first = True
confirm = (
    "py-spy record --pid PID -o profile.svg  # of the named rank, beside one of another rank",
    "nvidia-smi -q -d PERFORMANCE,CLOCK; top -b -n1 | head -20  # on its host: is its GPU throttled, are its cores shared?",
)
remedy = (
    "DataLoader(num_workers=8, pin_memory=True, persistent_workers=True, prefetch_factor=4)  # if it waits for data; costs host memory",
    "srun --cpu-bind=cores --exclusive …  # if neighbours share its cores; costs those cores for others",
)
_MOSTLY = 0.8
_SECONDS = 0.05
_SHARE = 0.1


def check(job: Job) -> Iterable[Found]:
    """One finding a group: last in most collectives, by a gap that counts beside the step."""
    seen: set[int] = set()
    for straggler in stragglers(job):
        if straggler.rank in seen or straggler.last_in < _MOSTLY * straggler.compared:
            continue
        if straggler.behind_seconds < max(_SECONDS, _SHARE * straggler.step_seconds):
            continue
        seen.add(straggler.rank)
        hosts = job.hosts_of_ranks([straggler.rank])
        yield Found(
            title=(
                f"{who_ranks([straggler.rank], hosts)} came last to {straggler.last_in} of {straggler.compared} "
                f"collectives of group {straggler.group}, {straggler.behind_seconds * 1000:.0f} ms after the last but "
                f"one"
            ),
            evidence=(straggler.dump.line,),
            confidence=Confidence.MEDIUM,
            ranks=(straggler.rank,),
            hosts=hosts,
        )


fires_on = {"recorders of three ranks": Sample("recorder-slow-rank")}
silent_on = {"a rank behind": Sample("2.28.9-nodes4-skip")}
