"""What messages say of the platform: peer access, topology files, affinity, IOMMU, fabric, partitions, drivers."""

from dataclasses import dataclass

from nccldoctor.model.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class AffinityIgnored(Event):
    """`Affinity for GPU 0 is empty, ignoring. (GPU affinity = 0-15 ; CPU affinity = 16-31)`: CPU lists, "" = none."""

    gpu: int
    gpu_cpus: str = ""
    process_cpus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAdvice(Event):
    """A host setting that the library misses: `Missing "iommu=pt" from kernel command line`."""

    setting: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyFileUnusable(Event):
    """`XML Topology has wrong version 0, 1 needed`, `Could not open XML topology file …`; `file` where it is named."""

    reason: str
    file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyUnreadable(Event):
    """`Could not find real path of /sys/…/0000:c1:00.0`, a missing /dev/kfd: the kernel's view is hidden."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPci(Event):
    """`Topology detection: network path … is not a PCI device (…)`: a virtual or platform device."""

    path: str
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAccessFailed(Event):
    """`Could not enable P2P between dev 0(=1b000) and dev 1(=3d000)`, `failed to peer with device …`."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoTransport(Event):
    """`No transport found for rank 0[1b000] -> rank 1[3d000]`: P2P, shared memory and network are all ruled out."""

    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IommuFault(Event):
    """A DMA that the IOMMU refused, from the kernel log: `DMAR: [DMA Read] …`, `AMD-Vi: Event logged [IO_PAGE_FAULT …]`."""

    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricProblem(Event):
    """NVSwitch fabric, multicast or IMEX that is not ready; `kind` is nvls, mnnvl or fabric-manager.

    `handled` when the message says that NCCL goes on without it.
    """

    kind: str
    reason: str
    handled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(Event):
    """A GPU that is a part of one: a MIG slice, or a vGPU profile."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverTooOld(Event):
    """The driver cannot run what the library was built for, in the message's own words."""

    reason: str
    driver: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUnsupported(Event):
    """The library was built without this GPU's architecture, in the message's own words."""

    reason: str
    gpu: str | None = None
