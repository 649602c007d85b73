"""What NCCL and its plugins say of plugins: asked for, not found, loaded, refused."""

from dataclasses import dataclass

from nccldoctor.model.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginAsked(Event):
    """`NET/Plugin: Plugin name set by env to libnccl-net-ofi.so`: somebody wants this library."""

    plugin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginMissing(Event):
    """`NET/Plugin: Could not find: libnccl-net.so`: normal unless it was asked for. `kind` is NET, TUNER, …"""

    kind: str
    library: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginLoaded(Event):
    """`NET/Plugin: Loaded net plugin AWS Libfabric (v9)`, `Successfully loaded external network plugin …`."""

    plugin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginBroken(Event):
    """A library that is there and cannot be used: what is missing in it, or what its start-up failed with."""

    plugin: str | None = None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRefused(Event):
    """`Failed to initialize NET plugin IB`: one of several networks; normal where its hardware is absent."""

    plugin: str
