"""Which variables a job's processes have, from NCCL's own lines, from saved environments and from what a log shows."""

from collections.abc import Iterable
from dataclasses import dataclass

from nccldoctor.knowledge.interfaces import loopback
from nccldoctor.model.event import Event
from nccldoctor.model.events.machine import VariableShown
from nccldoctor.model.events.nccl import (
    BootstrapInterface,
    CommComplete,
    EnvironmentSet,
    NetDevices,
    Version,
)
from nccldoctor.model.events.watched import ProcessEnvironment
from nccldoctor.model.job import Job


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable of one process. `read` when NCCL itself says that it read it; `event` is the proof."""

    variable: str
    value: str
    event: Event
    read: bool


def settings(job: Job) -> list[Setting]:
    """All settings: what NCCL read first, then what environments and output show."""
    found = [Setting(e.variable, e.value, e, True) for e in job.events(EnvironmentSet)]
    for saved in job.events(ProcessEnvironment):
        found += [Setting(n, v, saved, False) for n, v in sorted(saved.variables.items())]
    found += [
        Setting(e.variable, e.value.strip("'\""), e, False) for e in job.events(VariableShown)
    ]
    return found


def named(job: Job, *names: str) -> list[Setting]:
    """The settings of these variables."""
    return [s for s in settings(job) if s.variable in names]


def named_by(job: Job, events: Iterable[Event], *names: str) -> list[Setting]:
    """The settings of these variables in the processes that wrote `events`; everybody's where these tell none."""
    found = named(job, *names)
    ids = {p.id for e in events if (p := job.process_of(e)) is not None}
    own = [s for s in found if (p := job.process_of(s.event)) is not None and p.id in ids]
    return own or found


def value(job: Job, name: str) -> Setting | None:
    """The first setting of this variable; None when nobody sets it, as far as the evidence goes."""
    return next(iter(named(job, name)), None)


def on(setting: Setting | None) -> bool:
    """Is a switch set to something but 0?"""
    return setting is not None and setting.value.strip().lower() not in (
        "",
        "0",
        "false",
        "no",
        "off",
    )


def number(setting: Setting) -> int | None:
    """The value as the integer that NCCL reads, None when it is none."""
    try:
        return int(setting.value, 0)
    except ValueError:
        return None


def unique(found: Iterable[Setting]) -> list[Setting]:
    """One setting for each variable and value."""
    first: dict[tuple[str, str], Setting] = {}
    for setting in found:
        first.setdefault((setting.variable, setting.value), setting)
    return list(first.values())


def events_of(found: Iterable[Setting]) -> list[Event]:
    return [s.event for s in found]


def library_version(job: Job) -> str | None:
    """The one version of NCCL or RCCL that the job's processes name; None when none or several do."""
    versions = {e.version for e in job.events(Version)}
    return versions.pop() if len(versions) == 1 else None


def several_hosts(job: Job) -> bool:
    """Do ranks span hosts, as far as the evidence tells?"""
    return len(job.hosts) > 1


def one_machine(job: Job) -> bool:
    """Do the "hosts" talk over loopback alone, and reach each other? Then they are one machine under several names."""
    addresses = [e.address for e in job.events(BootstrapInterface)]
    sockets = [e.devices for e in job.events(NetDevices) if e.network == "Socket"]
    told = [*map(loopback, addresses), *("127.0.0.1" in d or "::1" in d for d in sockets)]
    return bool(told) and all(told) and works(job)


def works(job: Job) -> bool:
    """Did at least one rank get through its set-up?"""
    return bool(job.events(CommComplete))
