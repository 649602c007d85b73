"""Set-up of the library and of communicators, as NCCL and RCCL announce it."""

from nccldoctor.model.events import nccl
from nccldoctor.parse.pattern import Pattern

_COMM = (
    r"^(?:\[Rank \d+\] )?(?:(?P<api>nccl\w+) )?comm (?P<comm>0x[0-9a-f]+) rank (?P<rank>\d+) nranks (?P<nranks>\d+)"
    r" cudaDev (?P<device>\d+)(?: nvmlDev (?P<nvml_device>\d+))?(?: busId (?P<bus_id>[0-9a-f]+))?"
    r"(?: parent (?P<parent>0x[0-9a-f]+))?(?: (?:split|child)Count (?P<split>\d+))?"
    r"(?: color (?P<color>-?\d+))?(?: key (?P<key>-?\d+))?(?: commId (?P<comm_id>0x[0-9a-f]+))?[^-]*- Init "
)

NCCL = [
    Pattern(
        nccl.CommStart,
        "Init START",
        _COMM + "START",
        {
            "2.18-2.20": "comm 0xaf1f310 rank 1 nranks 8 cudaDev 1 nvmlDev 1 busId 70 commId 0xc5bc7b2cb1cbb1ae - Init START",
            "2.21-2.28": "ncclCommInitRankConfig comm 0x11ab1cf0 rank 6 nranks 8 cudaDev 0 nvmlDev 0 busId 60 commId 0xbf8c7d536fd469dd - Init START",
            "2.23-2.28 split": "ncclCommSplit comm 0x2c3f89f0 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 60 parent 0x24abcaa0 splitCount 1 color 2 key 0- Init START",
            "2.29+": "[Rank 2] ncclCommInitRank comm 0x9dde6d0 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 60 commId 0xd5f68ecfed4f8e0 - Init START",
        },
    ),
    Pattern(
        nccl.CommComplete,
        "Init COMPLETE",
        _COMM + "COMPLETE",
        {
            "2.4": "comm 0x7f1c38000dc0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 - Init COMPLETE",
            "2.5-2.15": "comm 0x7fd3d4001270 rank 0 nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE",
            "2.16-2.18": "comm 0x55d5 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x8c5f - Init COMPLETE",
            "2.24+ split": "ncclCommSplit comm 0x2c3f89f0 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 60 parent 0x24abcaa0 childCount 1 color 2 key 0 - Init COMPLETE",
            "RCCL": "ncclCommInitRank comm 0x55d5 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId c1000 commId 0x8c5f localSize 224 used 90112 bytes on core 12 - Init COMPLETE",
        },
    ),
    Pattern(
        nccl.CommGone,
        " rank ",
        r"^comm (?P<comm>0x[0-9a-f]+) rank (?P<rank>\d+) n[rR]anks (?P<nranks>\d+) cudaDev \d+ busId [0-9a-f]+(?: commId 0x[0-9a-f]+)? - "
        r"(?P<how>Destroy|Abort|Revoke) (?P<phase>START|COMPLETE)",
        {
            "2.12+": "comm 0x193f8aa0 rank 0 nranks 8 cudaDev 0 busId 60 - Abort COMPLETE",
            "2.28+": "comm 0x193f8aa0 rank 0 nRanks 8 cudaDev 0 busId 60 - Abort START",
        },
    ),
    Pattern(
        nccl.CommShape,
        " nNodes ",
        r"^comm (?P<comm>0x[0-9a-f]+) rank (?P<rank>\d+) nRanks (?P<nranks>\d+) nNodes (?P<hosts>\d+) "
        r"localRanks (?P<local_ranks>\d+) localRank (?P<local_rank>\d+) MNNVL (?P<mnnvl>\d+)",
        {"2.20+": "comm 0x11ab1cf0 rank 6 nRanks 8 nNodes 4 localRanks 2 localRank 0 MNNVL 0"},
    ),
    Pattern(
        nccl.InitTimings,
        "Init timings",
        r"^Init timings(?: - \w+)?: rank (?P<rank>\d+) nranks (?P<nranks>\d+) total (?P<total>[\d.]+) \((?P<parts>[^)]*)\)",
        {
            "2.22": "Init timings: rank 0 nranks 2 total 0.53 (kernels 0.42, bootstrap 0.01, allgathers 0.00, topo 0.08, graphs 0.00, connections 0.01, rest 0.00)",
            "2.23+": "Init timings - ncclCommInitRankConfig: rank 6 nranks 8 total 0.53 (kernels 0.42, alloc 0.01, bootstrap 0.01, allgathers 0.00, topo 0.08, graphs 0.00, connections 0.01, rest 0.00)",
        },
    ),
    Pattern(
        nccl.Version,
        "NCCL version ",
        r"^NCCL version (?P<version>\d+\.\d+\.\d+\w*)(?:\+cuda(?P<cuda>[\d.]+))?",
        {"2.3+": "NCCL version 2.28.9+cuda13.0", "alpha": "NCCL version 2.31.0a7+cuda13.0"},
    ),
    Pattern(
        nccl.Version,
        "RCCL version ",
        r"^RCCL version ?:? (?P<version>\d+\.\d+\.\d+)",
        {
            "rocm 6.2": "RCCL version : 2.21.5-HEAD:0cbce2a",
            "rocm 6.0": "RCCL version 2.18.3+hip6.0 HEAD:2f6d59e+",
        },
        {"library": "rccl"},
    ),
    Pattern(
        nccl.DriverVersion,
        "cudaDriverVersion ",
        r"^cudaDriverVersion (?P<version>\d+)",
        {"2.13+": "cudaDriverVersion 13000"},
    ),
    Pattern(
        nccl.EnvironmentSet,
        " set by environment to ",
        r"^(?P<variable>[A-Z][A-Z0-9_]+) set by environment to (?P<value>.*?)\.?\s*$",
        {
            "numbers": "NCCL_IB_DISABLE set by environment to 1.",
            "strings": "NCCL_SOCKET_IFNAME set by environment to lo",
        },
    ),
    Pattern(
        nccl.EnvironmentSet,
        "NCCL_IB_HCA set to ",
        r"^(?P<variable>NCCL_IB_HCA) set to (?P<value>\S+)",
        {"2.4+": "NCCL_IB_HCA set to mlx5_0:1,mlx5_1:1"},
    ),
]

TEXT = [
    Pattern(
        nccl.Version,
        "NCCL version ",
        r"^\s*NCCL version (?P<version>\d+\.\d+\.\d+\w*)\+cuda(?P<cuda>[\d.]+)\s*$",
        {"2.3-2.32, level VERSION": "NCCL version 2.21.5+cuda12.4"},
    ),
    Pattern(
        nccl.Version,
        "RCCL version",
        r"^\s*RCCL version ?:? (?P<version>\d+\.\d+\.\d+)",
        {"rocm 6.2": "RCCL version : 2.21.5-HEAD:0cbce2a"},
        {"library": "rccl"},
    ),
    Pattern(
        nccl.Diagnostic,
        "NCCL DIAG [",
        r"NCCL DIAG \[(?P<verdict>\w+)\]\s+(?P<check>[^:]+): (?P<text>.*)",
        {
            "2.31+": "NCCL DIAG [OK]   p2p: verified P2P access in both directions between every GPU pair (2 peer accesses)",
            "2.31+ RAS": "gpu-node-01:1048 NCCL DIAG [OK]   ECC: no uncorrected volatile errors across 2 ranks in comm 0x4897ee6c86894e77",
        },
    ),
    Pattern(
        nccl.Noise,
        "NCCL DIAG ",
        r"NCCL DIAG (?:===|NCCL diagnostics completed|RAS diagnostics completed)",
        {
            "2.31+": "NCCL DIAG === NCCL Diagnostics ===",
            "2.31+ end": "gpu-node-01:1048 NCCL DIAG RAS diagnostics completed in 24.1 ms across 2 ranks",
        },
    ),
]
