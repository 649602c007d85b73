"""Which network, which devices, which transport each channel takes."""

from nccldoctor.model.events import nccl
from nccldoctor.parse.pattern import Pattern

NCCL = [
    Pattern(
        nccl.BootstrapInterface,
        "Bootstrap",
        r"^Bootstrap ?: Using (?:\[\d+\])?(?P<interface>[^:\s]+):(?P<address>[^<\s]+)",
        {
            "2.4-2.23": "Bootstrap : Using [0]eth0:10.0.0.1<0>",
            "2.24+": "Bootstrap: Using eth0:192.0.2.2<0>",
        },
    ),
    Pattern(
        nccl.BootstrapInterface,
        "NET : Using interface ",
        r"^NET : Using interface (?P<interface>[^:\s]+):(?P<address>[^<\s]+)",
        {"2.3": "NET : Using interface eth0:10.0.0.1<0>"},
    ),
    Pattern(
        nccl.NetworkChosen,
        "Using network ",
        r"^Using network (?P<network>.+?)\s*$",
        {"2.6+": "Using network IB", "plugin": "Using network AWS Libfabric"},
    ),
    Pattern(
        nccl.NetDevices,
        "NET/",
        r"^NET/(?P<network>IB|Socket) ?: Using ?(?P<devices>(?:\[\d|\{|=|\[RO|;).*)$",
        {
            "socket": "NET/Socket : Using [0]lo:127.0.0.1<0>",
            "IB": "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>",
            "IB, none": "NET/IB : Using [RO]; OOB eth0:192.0.2.2<0>",
        },
    ),
    Pattern(
        nccl.NetDevices,
        "NET/IB : No device found",
        r"^NET/(?P<network>IB) : No device found",
        {"2.4+": "NET/IB : No device found."},
        {"devices": ""},
    ),
    Pattern(
        nccl.Edge,
        " via ",
        r"^(?:Channel|Ring) (?P<channel>\d+)(?:/\d+)? : (?P<source>\d+)\[(?P<source_device>[0-9a-f]+)\] -> "
        r"(?P<target>\d+)\[(?P<target_device>[0-9a-f]+)\] (?:\[(?P<direction>send|receive)\] )?"
        r"via (?P<transport>P2P|SHM|NET|COLLNET)(?:/(?P<detail>\S+(?: (?!comm 0x)\S+){0,2}))?",
        {
            "2.3-2.6": "Ring 00 : 0[0] -> 1[1] via P2P/IPC",
            "2.7-2.13": "Channel 00 : 0[1b000] -> 1[3d000] via P2P/IPC",
            "2.18+": "Channel 00/0 : 6[0] -> 7[1] via P2P/CUMEM",
            "net": "Channel 00/0 : 5[1] -> 6[0] [receive] via NET/Socket/0",
            "gdr": "Channel 03/0 : 7[7] -> 8[0] [send] via NET/IB/3/GDRDMA",
            "plugin": "Channel 00/0 : 7[7] -> 8[0] [receive] via NET/AWS Libfabric/0/GDRDMA",
            "shm": "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
            "rccl": "Channel 00/0 : 0[c1000] -> 1[c6000] via P2P/IPC comm 0x7f3c nRanks 08",
            "pointer": "Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer",
        },
    ),
    Pattern(
        nccl.Edge,
        "via direct shared memory",
        r"^(?:Channel|Ring) (?P<channel>\d+) : (?P<source>\d+)\[(?P<source_device>[0-9a-f]+)\] -> "
        r"(?P<target>\d+)\[(?P<target_device>[0-9a-f]+)\] via direct shared memory",
        {"2.7-2.12": "Channel 00 : 0[1b000] -> 1[3d000] via direct shared memory"},
        {"transport": "SHM", "detail": "direct"},
    ),
    Pattern(
        nccl.Edge,
        "Ring ",
        r"^Ring (?P<channel>\d+) : (?P<source>\d+)\[?(?P<source_device>[0-9a-f]*)\]? -> "
        r"(?P<target>\d+)\[?(?P<target_device>[0-9a-f]*)\]? (?:\[(?P<direction>send|receive)\] )?"
        r"via (?P<transport>P2P|SHM|NET|COLLNET)(?:/(?P<detail>\S+(?: (?!comm 0x)\S+){0,2}))?",
        {
            "2.4-2.6": "Ring 00 : 3[3] -> 2[2] via P2P/IPC",
            "2.4-2.6 net": "Ring 00 : 15 -> 0 [send] via NET/Socket/0",
        },
    ),
    Pattern(
        nccl.RingOrder,
        " : ",
        r"^(?:Channel|Ring) (?P<channel>\d+)(?:/\d+)? : *(?P<ranks>0(?: +\d+)+)\s*$",
        {
            "2.3": "Ring 00 :    0   1   2   3",
            "2.4": "Channel 00 :    0   1",
            "2.6-2.22": "Channel 00/02 :    0   1   2   3",
            "2.23+": "Channel 00/24 : 0 1",
        },
    ),
    Pattern(
        nccl.TreeSeats,
        "Trees [",
        r"^Trees (?P<seats>\[0\] .*)",
        {
            "2.4": "Trees [0] 4->6->7/-1/-1",
            "2.6+": "Trees [0] 7/-1/-1->6->4 [1] 7/2/-1->6->-1",
        },
    ),
    Pattern(
        nccl.Connected,
        "Connected",
        r"(?:^|rank \d+ )Connected (?P<what>all rings|all trees|NVLS tree|binomial trees|CollNet|Collnet Chains)",
        {
            "2.8-2.23": "Connected all rings",
            "2.24+": "Connected all rings, use ring PXN 0 GDR 1",
            "trees": "Connected all trees",
        },
    ),
    Pattern(
        nccl.ChannelCounts,
        " coll channels, ",
        r"^(?P<collective>\d+) coll channels, (?:\d+ collnet channels, )?(?:(?P<nvls>\d+) nvls channels, )?"
        r"(?P<p2p>\d+) p2p channels",
        {
            "2.7-2.16": "2 coll channels, 2 p2p channels, 2 p2p channels per peer",
            "2.17-2.19": "24 coll channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer",
            "2.20+": "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer",
        },
    ),
    Pattern(
        nccl.GpuDirect,
        "GPU Direct RDMA ",
        r"^(?:NET/(?P<network>\w+) : )?GPU Direct RDMA (?P<state>Enabled|Disabled) for (?P<subject>[^()\n]*(?:\(rank \d+\)[^()\n]*)?)"
        r"(?:\((?:distance (?P<distance>\d+) [<>]=? (?P<limit>\d+))?[^\n]*)?$",
        {
            "per HCA": "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
            "2.4": "NET/Socket : GPU Direct RDMA Disabled for GPU 0[0] / HCA 0 (distance 2 >= 2)",
            "2.5-2.12": "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)",
            "per GPU": "GPU Direct RDMA Disabled for GPU 1b000 / HCA 3 (distance 7 > 4)",
            "per GPU, 2.26+": "GPU Direct RDMA Enabled for GPU 0 / HCA 3 (distance 4 <= 5), read 0 mode Default",
            "2.29": "GPU Direct RDMA Disabled for GPU/0-1b000 (rank 0) - NET/0-0 (distance 9 > 5, read 0, mode Default)",
        },
    ),
]
