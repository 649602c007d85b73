"""Tells a log that somebody cut out of the middle, in which the absence of a line means nothing."""

from collections.abc import Iterator

from nccldoctor.model.events.nccl import (
    BootstrapInterface,
    CommComplete,
    DriverVersion,
    NetDevices,
    NetworkChosen,
    Version,
)
from nccldoctor.model.events.plugin import PluginLoaded, PluginMissing
from nccldoctor.model.job import Job


def begins_inside(job: Job) -> bool:
    """Does a process tell of its network or of a complete communicator, and not of its start before that?

    Every process logs its bootstrap interface, its driver or its network plugin first; with a filter that hides those
    lines the later ones are hidden too.
    """
    return bool(set(_later(job)) - set(_first(job)))


def _first(job: Job) -> Iterator[int]:
    for kind in (BootstrapInterface, DriverVersion, Version, PluginLoaded):
        for event in job.events(kind):
            if process := job.process_of(event):
                yield process.id
    for missing in job.events(PluginMissing):
        if missing.kind == "NET" and (process := job.process_of(missing)):
            yield process.id
    for devices in job.events(NetDevices):
        if devices.network == "Socket" and (process := job.process_of(devices)):
            yield process.id


def _later(job: Job) -> Iterator[int]:
    for kind in (NetworkChosen, CommComplete):
        for event in job.events(kind):
            if process := job.process_of(event):
                yield process.id
    for devices in job.events(NetDevices):
        if devices.network != "Socket" and (process := job.process_of(devices)):
            yield process.id
