"""A variable has a value that NCCL refuses or ignores.

Since NCCL 2.24 a wrong word in NCCL_ALGO or NCCL_PROTO makes the set-up fail; before, it was ignored. A number that
is no number counts as 0 or as the default, and says so only at level INFO. A pair of NCCL_ALGO and NCCL_PROTO that no
collective can use fails at the first call that needs it. `nccldoctor env` checks an environment before the job runs.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.grouping import apart
from nccldoctor.diagnose.settings import events_of, library_version, named, settings
from nccldoctor.diagnose.words import lines, who
from nccldoctor.knowledge.values import problem
from nccldoctor.model.events.trouble import BadToken, BadValue, NoAlgorithm
from nccldoctor.model.finding import Severity
from nccldoctor.model.job import Evidence, Job

code = "ENV02"
name = "invalid-value"
severity = Severity.ERROR
needs = (Evidence.ENVIRONMENT, Evidence.NCCL_LOG, Evidence.OUTPUT)
explains = ("INIT07", "INIT01", "CRASH01", "NET10", "HANG04", "ENV07")
confirm = ("nccldoctor env  # checks names and values of this environment before the job runs",)
remedy = ("unset NCCL_ALGO NCCL_PROTO  # NCCL then chooses by size and topology; costs nothing",)

_ELSEWHERE = ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS")


def check(job: Job) -> Iterable[Found]:
    """What NCCL itself refuses; then what its grammar does not allow; then pairs that leave nothing."""
    told = set()
    for value, events in apart(job.events(BadToken), lambda e: e.value).items():
        setting = [s for s in named(job, "NCCL_ALGO", "NCCL_PROTO") if s.value == value]
        variable = setting[0].variable if setting else "NCCL_ALGO or NCCL_PROTO"
        told.add(value)
        yield told_by(
            job,
            events,
            f"{who(job, events)}: {variable}={value} has {events[0].token!r}, which NCCL does not know",
            evidence=lines([*events[:2], *events_of(setting)]),
            remedy=(f"unset {variable}  # or mend the word; costs nothing", *confirm)
            if setting
            else remedy,
        )
    for bad in {(e.variable, e.value): e for e in job.events(BadValue)}.values():
        unread = [e for e in job.events(BadValue) if e.variable == bad.variable]
        yield told_by(
            job,
            unread,
            f"{who(job, unread)}: NCCL cannot read {bad.variable}={bad.value} and uses {bad.default}",
            severity=Severity.WARNING,
            remedy=(f"unset {bad.variable}  # or give it a number; costs nothing", *confirm),
        )
    yield from _ungrammatical(job, told)
    yield from _nothing_left(job)


def _ungrammatical(job: Job, told: set[str]) -> Iterable[Found]:
    version = library_version(job)
    found: dict[tuple[str, str], list[int]] = {}
    all_settings = settings(job)
    for index, s in enumerate(all_settings):
        if s.variable in _ELSEWHERE or s.value in told:
            continue
        if problem(s.variable, s.value, version):
            found.setdefault((s.variable, s.value), []).append(index)
    for (variable, value), indexes in sorted(found.items()):
        events = [all_settings[i].event for i in indexes]
        yield told_by(
            job,
            events,
            f"{variable}={value} {problem(variable, value, version)}",
            severity=Severity.WARNING,
            remedy=(f"unset {variable}  # or give it a value that exists; costs nothing", *confirm),
        )


def _nothing_left(job: Job) -> Iterable[Found]:
    events = job.events(NoAlgorithm)
    forced = named(job, "NCCL_ALGO", "NCCL_PROTO")
    if not events or not forced:
        return
    pair = " ".join(sorted({f"{s.variable}={s.value}" for s in forced}))
    yield told_by(
        job,
        events,
        f"{who(job, events)}: {pair} leaves no way to run a collective: {events[0].message}",
        evidence=lines([*events[:2], *events_of(forced)]),
    )


_H = "gpu-1:71:71 [0] "
fires_on = {
    "2.24-2.29": _H
    + 'graph/tuning.cc:104 NCCL WARN Unrecognized element token "Rign" when parsing "Rign"\n',
    "2.30.7+": _H
    + 'graph/tuning.cc:120 (parseList) NCCL WARN Unrecognized element token "Simpel" when parsing "Simpel"\n',
    "2.3-2.30, a number too large": _H
    + "NCCL INFO Invalid value 99999999999999999999 for NCCL_BUFFSIZE, using default -2.\n",
    "before 2.24, ignored": _H
    + "NCCL INFO NCCL version 2.21.5+cuda12.4\n"
    + _H
    + "NCCL INFO NCCL_PROTO set by environment to LL256\n",
    "nothing left": _H
    + "NCCL INFO NCCL_ALGO set by environment to NVLS\n"
    + _H
    + "enqueue.cc:1400 NCCL WARN Error : no algorithm/protocol available for function AllReduce with datatype ncclFloat32.\n",
    "PyTorch's last error": (
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.cpp:93, invalid usage "
        "(run with NCCL_DEBUG=WARN for details), NCCL version 2.28.9\n"
        "[rank0]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
        "[rank0]: Last error:\n"
        '[rank0]: Unrecognized element token "Rign" when parsing "Rign"\n'
    ),
}
silent_on = {
    "right words": _H
    + "NCCL INFO NCCL_ALGO set by environment to allreduce:ring,tree\n"
    + _H
    + "NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.\n",
}
