"""Complaints of NCCL and RCCL about set-up, peers, CUDA and usage."""

from nccldoctor.model.events import trouble
from nccldoctor.parse.pattern import Pattern

ALONE = (
    "Duplicate GPU detected : rank",
    "Got completion from peer",
    "Call to ibv_",
    "socketStartConnect: ",
    "socketPollConnect: ",
    "failed to extend /dev/shm",
    "shared memory segment /dev/shm",
    "no socket interface found",
    "Cuda failure ",
    "connecting to address ",
    "Mismatched NCCL version detected",
    "Message truncated : received ",
    "ssage truncated : receiving ",
    "nvmlDeviceGetHandleBy",
)
"""Words that only NCCL writes: a message that holds one is NCCL's, also where it is quoted without its header."""

NCCL = [
    Pattern(
        trouble.OddCollective,
        "Mismatched collective detected",
        r"^Mismatched collective detected, please check your collective calls at and around rank (?P<odd_rank>\d+)",
        {
            "2.4-2.5": "Mismatched collective detected, please check your collective calls at and around rank 3. You can use NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=COLL to see the collective logs"
        },
    ),
    Pattern(
        trouble.DuplicateGpu,
        "Duplicate GPU detected",
        r"Duplicate GPU detected : rank (?P<first_rank>\d+) and rank (?P<second_rank>\d+) both on CUDA device (?P<bus_id>[0-9a-f]+)",
        {"2.3-2.29": "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60"},
    ),
    Pattern(
        trouble.DuplicateGpu,
        "using the same GPU",
        r"Multiple [rR]anks (?:detected|are) using the same GPU",
        {
            "2.30.3": "Multiple ranks detected using the same GPU on this node. Please use a different GPU for each rank.",
            "2.30.7+": "Multiple Ranks are using the same GPU/Partition",
        },
    ),
    Pattern(
        trouble.NoNetwork,
        "Failed to initialize any NET plugin",
        r"^Failed to initialize any NET plugin",
        {"2.27+": "Failed to initialize any NET plugin"},
    ),
    Pattern(
        trouble.NoNetwork,
        "Error: network ",
        r"^Error: network (?P<network>\S+) not found",
        {"2.10-2.26": "Error: network IB not found."},
    ),
    Pattern(
        trouble.MessageTruncated,
        "Message truncated : received ",
        r"^Message truncated : received (?P<received>\d+) bytes instead of (?P<expected>\d+)",
        {"2.4+": "Message truncated : received 172 bytes instead of 64"},
    ),
    Pattern(
        trouble.VersionMismatch,
        "Mismatched NCCL version detected",
        r"rank (?P<rank>\d+) version (?P<version>\d+) rank (?P<other_rank>\d+) version (?P<other_version>\d+)",
        {"2.23+": "Mismatched NCCL version detected : rank 0 version 22105 rank 1 version 22602"},
    ),
    Pattern(
        trouble.PeerClosed,
        "Connection closed by remote peer",
        r"Connection closed by remote peer(?: (?P<peer>\S+))?",
        {
            "2.16+": "socketProgress: Connection closed by remote peer localhost<44092>",
            "2.10-2.15": "Net : Connection closed by remote peer 10.0.0.2<40822>",
            "2.3-2.9": "Net : Connection closed by remote peer",
        },
    ),
    Pattern(
        trouble.PeerClosed,
        "Call to ",
        r"Call to (?:recv from|send to) (?P<peer>\S+) failed ?: (?P<reason>.*)$",
        {
            "2.12+": "socketProgressOpt: Call to recv from 10.0.0.2<40822> failed : Connection reset by peer",
            "2.29+": "ncclOsSocketProgressOpt: Call to send to 10.0.0.2<40822> failed : Broken pipe",
        },
    ),
    Pattern(
        trouble.CudaFailure,
        "Cuda failure ",
        r"Cuda failure (?:\d+ )?'(?P<reason>[^']*)'",
        {"2.3-2.18": "Cuda failure 'out of memory'", "2.19+": "Cuda failure 2 'out of memory'"},
    ),
    Pattern(
        trouble.CudaFailure,
        "HIP failure",
        r"HIP failure: '(?P<reason>[^']*)'",
        {"RCCL": "HIP failure: 'out of memory'"},
    ),
    Pattern(
        trouble.AllocationFailed,
        "Failed to CUDA ",
        r"Failed to CUDA (?:malloc|calloc|calloc async|host alloc) (?P<size_bytes>\d+) bytes",
        {
            "2.14+": "Failed to CUDA malloc 4194304 bytes",
            "async": "Failed to CUDA calloc async 608 bytes",
        },
        {"memory": "cuda"},
    ),
    Pattern(
        trouble.NoAlgorithm,
        "o algorithm/protocol ",
        r"(?P<message>[nN]o algorithm/protocol .*)$",
        {
            "2.12-2.29": "Error : no algorithm/protocol available for function AllReduce with datatype ncclFloat32.",
            "2.30+": "No algorithm/protocol available for function AllReduce",
        },
    ),
    Pattern(
        trouble.ErrorReturned,
        " -> ",
        r"^(?P<place>[\w./\-]+:\d+(?: \(\w+\))?) -> (?P<result>[1-8])(?:\b|$)",
        {
            "2.3-2.29": "init.cc:1582 -> 5",
            "2.30+": "init.cc:1543 (initTransportsRank) -> 3",
            "thread": "proxy.cc:878 -> 6 [Progress Thread]",
        },
    ),
]
