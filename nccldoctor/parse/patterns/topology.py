"""What SUBSYS=GRAPH and TUNING print: the machine, the paths, the graphs laid over it, the algorithm of a call."""

from nccldoctor.model.events import nccl
from nccldoctor.parse.pattern import Pattern, noise

_NODE = r"(?:GPU|NIC|NET|NVS|CPU|PCI|DEV|GIN|RMA|CXB)/[0-9A-Fa-f\-]+"

NCCL = [
    Pattern(
        nccl.GraphFound,
        "Pattern ",
        r"^Pattern (?P<pattern>\d+), crossNic \d+, nChannels (?P<channels>\d+), (?:bw|speed) "
        r"(?P<intra_bandwidth>[\d.]+)/(?P<inter_bandwidth>[\d.]+), type (?P<intra_type>\w+)/(?P<inter_type>\w+)",
        {
            "2.6-2.13": "Pattern 4, crossNic 0, nChannels 12, speed 24.000000/24.000000, type NVL/PIX, sameChannels 1",
            "2.14+": "Pattern 4, crossNic 0, nChannels 1, bw 1.200000/1.200000, type NVL/PHB, sameChannels 1",
        },
    ),
    Pattern(
        nccl.TopologyLine,
        "/",
        r"^(?P<indent>\s*)(?:\+ (?P<link>LOC|NVL|XGMI|C2C|PCI|SYS|QPI|NET)\[(?P<bandwidth>[\d.]+)\] - )?"
        rf"(?P<node>{_NODE}(?: \([^)]*\))?)\s*$",
        {
            "root": "CPU/0-ffffffffffffff (1/1/4)",
            "gpu": "+ PCI[48.0] - GPU/0-60 (6)",
            "nvlink": "              + NVL[370.8] - NVS/0-0",
            "RCCL": "               + XGMI[48.0] - GPU/c6000",
            "net": "                + NET[1.2] - NET/0-0 (0/0/0/1.250000)",
        },
    ),
    Pattern(
        nccl.PathLine,
        " :",
        rf"^(?P<node>{_NODE}) :(?P<paths>{_NODE} \(.*)$",
        {
            "2.23+": "GPU/0-60 :GPU/0-60 (0/5000.0/LOC) GPU/0-70 (2/370.8/NVL)",
            "2.6+": "GPU/C7000 :GPU/C7000 (0/5000.000000/LOC) CPU/0 (2/120.000000/NVL)",
        },
    ),
    Pattern(
        nccl.AlgorithmChosen,
        " Bytes -> Algo ",
        r"^(?P<op>\w+): (?P<size_bytes>\d+) Bytes -> Algo (?P<algorithm>\w+) proto (?P<protocol>\w+)",
        {
            "2.24+": "AllReduce: 16777216 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}",
            "2.23": "AllReduce: 4096 Bytes -> Algo 1 proto 0 time 12.3",
        },
    ),
    noise("=== System : ", all="=== System : maxBw 1.2 totalBw 370.8 ==="),
    noise("=================", all="=========================================="),
]
