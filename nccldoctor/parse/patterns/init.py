"""Start-up and use: ranks, rendezvous, refused calls, topology, fabric, peer access."""

from nccldoctor.model.events import platform, trouble, usage
from nccldoctor.parse.pattern import Pattern


def _refused(anchor: str, regex: str, **samples: str) -> Pattern:
    return Pattern(usage.InvalidUsage, anchor, regex, samples)


NCCL = [
    Pattern(
        usage.RankTaken,
        "has already checked in",
        r"rank (?P<rank>\d+) of (?P<nranks>\d+) (?:ranks )?has already checked in",
        {
            "2.27+": "bootstrapRoot: rank 0 of 8 has already checked in",
            "2.4+": "Bootstrap Root : rank 1 of 4 ranks has already checked in",
        },
    ),
    Pattern(
        usage.RankCountDiffers,
        " from procs",
        r"mismatch in (?:rank count from procs|info from procs, nranks) (?P<nranks>\d+) (?::|vs) (?P<other_nranks>\d+)",
        {
            "2.3-2.22": "Bootstrap Root : mismatch in rank count from procs 4 : 8",
            "2.23+": "Bootstrap Root : mismatch in info from procs, nranks 4 vs 8, iroot 0 vs 0",
        },
    ),
    Pattern(
        usage.RankOutOfRange,
        "Invalid rank requested",
        r"^Invalid rank requested : (?P<rank>-?\d+)/(?P<nranks>\d+)",
        {"2.3+": "Invalid rank requested : 8/8"},
    ),
    _refused(
        " : invalid ",
        r"^(?P<reason>\w+ : invalid (?:root|type|reduction operation|count) .*)$",
        all="AllReduce : invalid reduction operation 12 (must be within range 0..4)",
        root="Broadcast : invalid root 7 (root should be in the 0..4 range)",
    ),
    _refused(
        " argument is NULL",
        r"^(?P<reason>\w+ : \w+ argument is NULL)",
        all="CommInitRank : newcomm argument is NULL",
    ),
    _refused(
        " is not a valid pointer",
        r"^(?P<reason>\w+ : \w+ \S+ is not a valid pointer)",
        all="AllReduce : sendbuff 0x7f is not a valid pointer",
    ),
    _refused(
        "with NCCL device ",
        r"^(?P<reason>\w+ : \w+ allocated on device \d+ mismatchs? with NCCL device \d+)",
        all="AllReduce : sendbuff allocated on device 0 mismatchs with NCCL device 1",
    ),
    _refused(
        "has already been destroyed",
        r"(?P<reason>comm \S+ has already been destroyed)",
        all="comm 0x5581 has already been destroyed",
    ),
    _refused(
        "orrupted comm object detected",
        r"(?P<reason>[Cc]orrupted comm object detected)",
        all="Error: corrupted comm object detected",
    ),
    _refused(
        "not in a group call",
        r"(?P<reason>ncclGroupEnd: not in a group call)",
        all="ncclGroupEnd: not in a group call.",
    ),
    _refused(
        "ing communicators are not allowed in the same group",
        r"(?P<reason>Blocking and nonblocking communicators are not allowed in the same group)",
        all="Blocking and nonblocking communicators are not allowed in the same group.",
    ),
    _refused(
        "before the previous operation returned",
        r"(?P<reason>Attempt to use communicator before the previous operation returned ncclSuccess)",
        all="Attempt to use communicator before the previous operation returned ncclSuccess",
    ),
    _refused(
        "NCCL_CONFIG_INITIALIZER",
        r"(?P<reason>ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER)",
        all="ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER",
    ),
    _refused(
        "improper usage of ncclCommInit",
        r"(?P<reason>improper usage of ncclCommInit\w*:.*)$",
        all="improper usage of ncclCommInitRank: nId = 0, nranks=2",
    ),
    _refused(
        "Invalid device count requested",
        r"^(?P<reason>Invalid device count requested : -?\d+)",
        all="Invalid device count requested : 0",
    ),
    _refused(
        "host threads racing to launch",
        r"(?P<reason>host threads racing to launch NCCL on same device)",
        all="Fatal: host threads racing to launch NCCL on same device.",
    ),
    _refused(
        "FP8 reduction support begins",
        r"^(?P<reason>FP8 reduction support begins with sm90 capable devices)",
        all="FP8 reduction support begins with sm90 capable devices.",
    ),
    _refused(
        "NCCL library is too old",
        r"^(?P<reason>NCCL library is too old.*)$",
        all="NCCL library is too old. This application was compiled with NCCL version 2.30.7, but is running with NCCL version 2.28.9",
    ),
    Pattern(
        platform.TopologyFileUnusable,
        "XML ",
        r"^(?P<reason>XML (?:Topology|Graph) has wrong version .*|XML Parse.*|XML Import.*|XML Mismatch.*)$",
        {
            "version": "XML Topology has wrong version 2, 1 needed",
            "parse": "XML Parse error : expecting '=', got '\"'",
        },
    ),
    Pattern(
        platform.TopologyFileUnusable,
        "Could not open XML ",
        r"^(?P<reason>Could not open XML (?:topology|graph) file (?P<file>(?!/var/run/nvidia-topologyd)\S+) : .*)$",
        {
            "topology": "Could not open XML topology file /etc/nccl/topo.xml : No such file or directory",
            "graph": "Could not open XML graph file /etc/nccl/graph.xml : No such file or directory",
        },
    ),
    Pattern(
        platform.TopologyFileUnusable,
        " nodes",
        r"^(?P<reason>Error : (?:too many XML nodes \(max \d+\)|XML parser is limited to \d+ nodes).*)$",
        {
            "2.5-2.20": "Error : too many XML nodes (max 256)",
            "2.21+": "Error : XML parser is limited to 1024 nodes",
        },
    ),
    Pattern(
        platform.TopologyFileUnusable,
        "Attribute ",
        r"^(?P<reason>Attribute \w+ of node \w+ not found)",
        {"2.5+": "Attribute busid of node pci not found"},
    ),
    Pattern(
        platform.TopologyUnreadable,
        "Could not find real path of ",
        r"^Could not find real path of (?P<what>(?!\S*fffffff)/sys/\S+)",
        {"2.4+": "Could not find real path of /sys/class/pci_bus/0000:c1/../../0000:c1:00.0"},
    ),
    Pattern(
        platform.NotPci,
        " is not a PCI device",
        r"^Topology detection ?: network path (?:\(name = (?P<device>[^)]*)\) )?(?P<path>\S+) is not a PCI device",
        {
            "2.20+": "Topology detection: network path /sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/000d3a is not a PCI device (vmbus). Attaching to first CPU"
        },
    ),
    Pattern(
        platform.AffinityIgnored,
        "Affinity for GPU ",
        r"Affinity for GPU (?P<gpu>\d+) is empty, ignoring\. ?\(GPU affinity = (?P<gpu_cpus>[\d,\-]*) *; "
        r"CPU affinity = (?P<process_cpus>[\d,\-]*) *\)",
        {
            "2.28+": "ncclTopoGetCpuAffinity: Affinity for GPU 0 is empty, ignoring. (GPU affinity =  ; CPU affinity = 0-31).",
            "disjoint": "ncclTopoGetCpuAffinity: Affinity for GPU 3 is empty, ignoring. (GPU affinity = 48-95 ; CPU affinity = 0-7).",
        },
    ),
    Pattern(
        trouble.P2pDisabled,
        "P2P is disabled between ",
        r"^P2P is disabled between (?P<nvlink>NVLINK )?connected GPUs (?P<first>\d+) and (?P<second>\d+)",
        {
            "PCIe": "P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.",
            "NVLink": "P2P is disabled between NVLINK connected GPUs 1 and 0. This should not be the case given their connectivity, and is probably due to a hardware issue. If you still want to proceed, you can set NCCL_IGNORE_DISABLED_P2P=1.",
        },
    ),
    Pattern(
        platform.PeerAccessFailed,
        "between dev ",
        r"^(?P<reason>(?:Could not enable P2P|peer query failed) between dev .*)$",
        {
            "2.3+": "Could not enable P2P between dev 0(=1b000) and dev 1(=3d000)",
            "query": "peer query failed between dev 0(=1b000) and dev 1(=3d000)",
        },
    ),
    Pattern(
        platform.PeerAccessFailed,
        "failed",
        r"^(?P<reason>failed to (?:peer with device|open CUDA IPC handle) .*|(?:cuda|hip)Ipc(?:Get|Open)MemHandle failed .*)$",
        {
            "peer": "failed to peer with device 1(=3d000): 217 peer access is not supported between these two devices",
            "ipc": "failed to open CUDA IPC handle : 1 invalid argument",
            "get": "cudaIpcGetMemHandle failed : operation not supported",
            "RCCL": "hipIpcGetMemHandle failed : invalid argument",
        },
    ),
    Pattern(
        platform.NoTransport,
        "No transport found for rank ",
        r"^No transport found for rank (?P<source>\d+)\[[^\]]*\] -> rank (?P<target>\d+)\[",
        {"2.3+": "No transport found for rank 0[1b000] -> rank 1[3d000]"},
    ),
    Pattern(
        platform.FabricProblem,
        "Failed to bind NVLink SHARP",
        r"^(?P<reason>Failed to bind NVLink SHARP \(NVLS\) Multicast memory .*?)(?P<handled>Proceeding without NVLS support)?\.?$",
        {
            "2.27+": "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation cannot be performed in the present state'",
            "2.27-2.28, auto": "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation cannot be performed in the present state'. Proceeding without NVLS support.",
        },
        {"kind": "nvls"},
    ),
    Pattern(
        platform.FabricProblem,
        "MNNVL ",
        r"^(?P<reason>MNNVL \(cliqueSize \d+\) is available but not .*)$",
        {
            "2.25-2.26": "MNNVL (cliqueSize 8) is available but not supported on this system. Check the IMEX configuration.",
            "2.27+": "MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX channel configuration (/dev/nvidia-caps-imex-channels).",
        },
        {"kind": "mnnvl"},
    ),
    Pattern(
        platform.FabricProblem,
        "Multicast support requested",
        r"^(?P<reason>Multicast support requested for team but none available on system)",
        {"2.28+": "Multicast support requested for team but none available on system."},
        {"kind": "nvls"},
    ),
]

TEXT = [
    Pattern(
        usage.NameUnresolved,
        " cannot be retrieved (gai error",
        r"The (?P<family>IPv[46]) network addresses of \((?P<name>[^,]+), (?P<port>\d+)\) cannot be retrieved \(gai error",
        {
            "2.0+": "[W1130 04:15:21.1 socket.cpp:764] [c10d] The IPv6 network addresses of (no.such.host.invalid, 29955) cannot be retrieved (gai error: -2 - Name or service not known)."
        },
    ),
    Pattern(
        usage.VariableMissing,
        "rendezvous: environment variable ",
        r"rendezvous: environment variable (?P<variable>\w+) expected, but not set",
        {
            "1.0+": "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, but not set"
        },
    ),
    Pattern(
        usage.ForeignServer,
        "Ping failed, invalid value returned from server",
        r"Ping failed, invalid value returned from server(?:.*Got: (?P<got>\d+))?",
        {
            "2.9+": "torch.distributed.DistNetworkError: Ping failed, invalid value returned from server. Expected: 28005, Got: 1347703880"
        },
    ),
    Pattern(
        usage.NcclTestsRank,
        "#  Rank ",
        r"^#  Rank +(?P<test_rank>\d+) (?:Group +\d+ )?Pid +(?P<test_pid>\d+) on +(?P<test_host>\S+) device +(?P<device>\d+) ",
        {
            "2.10+": "#  Rank  0 Group  0 Pid  62 on gpu-node-01 device  0 [0000:00:06] NVIDIA H200",
            "2.0-2.9": "#  Rank  0 Pid  62 on gpu-node-01 device  0 [0x1b] Tesla V100-SXM2-32GB",
        },
    ),
]
