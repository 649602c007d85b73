"""Settings contradict each other, or a configuration file sets what the environment does not show.

NCCL takes its variables from the environment, then from the file NCCL_CONF_FILE or else ~/.nccl.conf, then from
/etc/nccl.conf; it says "set by environment" for all of them. A variable that NCCL reads and the environment lacks
comes from such a file, usually one that an image or an administrator left.
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found
from nccldoctor.diagnose.settings import Setting, number, settings
from nccldoctor.diagnose.words import lines
from nccldoctor.knowledge.conflicts import (
    ANY,
    CONFLICTS,
    MINIMUM_OVER_MAXIMUM,
    MOST_SOCKETS,
    OFF,
    ON,
)
from nccldoctor.knowledge.precedence import FILES, PRECEDENCE
from nccldoctor.model.events.nccl import EnvironmentSet
from nccldoctor.model.events.watched import ProcessEnvironment
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "ENV08"
name = "conflicting-settings"
severity = Severity.WARNING
needs = (Evidence.ENVIRONMENT,)
explains = ()
confirm = (
    "env | grep -E 'NCCL_|TORCH_'; cat /etc/nccl.conf ~/.nccl.conf \"$NCCL_CONF_FILE\"  # who sets what",
)
remedy = (
    "unset NAME  # the one of the two that is not meant; costs nothing, since it has no effect beside the other",
)


def check(job: Job) -> Iterable[Found]:
    """One finding a pair, and one a variable that comes from a file."""
    first: dict[str, Setting] = {}
    for setting in settings(job):
        first.setdefault(setting.variable, setting)
    for conflict in CONFLICTS:
        one, other = first.get(conflict.one), first.get(conflict.other)
        if one and other and _is(one, conflict.one_value) and _is(other, conflict.other_value):
            yield _found(job, one, other, conflict.why)
    for low, high in MINIMUM_OVER_MAXIMUM:
        one, other = first.get(low), first.get(high)
        if one and other and (number(one) or 0) > (number(other) or 1 << 30):
            yield _found(job, one, other, "the minimum is above the maximum")
    one, other = first.get("NCCL_SOCKET_NTHREADS"), first.get("NCCL_NSOCKS_PERTHREAD")
    if one and other and (number(one) or 0) * (number(other) or 0) > MOST_SOCKETS:
        yield _found(job, one, other, f"their product is above {MOST_SOCKETS}, and NCCL cuts it")
    yield from _from_file(job)


def _is(setting: Setting, wanted: str) -> bool:
    if wanted == ANY:
        return bool(setting.value)
    if wanted in (ON, OFF):
        value = number(setting)
        if value is None:
            truth = setting.value.lower() in ("true", "yes", "y", "t")
            return truth if wanted == ON else setting.value.lower() in ("false", "no", "n", "f")
        return (value != 0) == (wanted == ON)
    return setting.value.lower() == wanted.lower()


def _found(job: Job, one: Setting, other: Setting, why: str) -> Found:
    events = [one.event, other.event]
    return Found(
        title=f"{one.variable}={one.value} and {other.variable}={other.value} contradict each other: {why}",
        evidence=lines(events),
        ranks=job.ranks_of(events),
        remedy=(
            f"unset {one.variable}  # or {other.variable}; costs nothing, since it has no effect beside the other",
            confirm[0],
        ),
    )


def _from_file(job: Job) -> Iterable[Found]:
    environments = {
        p.id: e for e in job.events(ProcessEnvironment) if (p := job.process_of(e)) is not None
    }
    told = set()
    for event in job.events(EnvironmentSet):
        process = job.process_of(event)
        saved = environments.get(process.id) if process else None
        if saved is None or event.variable in told:
            continue
        shown = saved.variables.get(event.variable)
        if shown is None:
            told.add(event.variable)
            yield Found(
                title=f"{event.variable}={event.value} comes from a configuration file or from the program itself, not from the environment that it started with",
                explanation=f"The first that sets a variable wins: {'; then '.join(PRECEDENCE)}.",
                evidence=(event.line,),
                severity=Severity.NOTE,
                confidence=Confidence.MEDIUM,
                remedy=(f'grep . {" ".join(FILES)} "$NCCL_CONF_FILE"  # which file sets it',),
            )


_H = "gpu-1:71:71 [0] NCCL INFO "
fires_on = {
    "NCCL's lines": _H
    + "NCCL_IB_DISABLE set by environment to 1.\n"
    + _H
    + "NCCL_IB_HCA set to mlx5_0:1,mlx5_1:1\n",
    "the environment": "NCCL_P2P_DISABLE=1\nNCCL_P2P_LEVEL=NVL\n",
    "minimum over maximum": _H
    + "NCCL_MIN_NCHANNELS set by environment to 16.\n"
    + _H
    + "NCCL_MAX_NCHANNELS set by environment to 4.\n",
    "PyTorch": "TORCH_NCCL_BLOCKING_WAIT=1\nTORCH_NCCL_DUMP_ON_TIMEOUT=true\n",
}
silent_on = {
    "they agree": "NCCL_IB_DISABLE=0\nNCCL_IB_HCA=mlx5\nNCCL_MIN_NCHANNELS=4\nNCCL_MAX_NCHANNELS=16\n",
}
