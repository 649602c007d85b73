"""Known messages of the debug subsystems, plugins and older versions that no diagnosis needs; `noise` adds them last."""

import re

from nccldoctor.model.events.nccl import Noise
from nccldoctor.parse.pattern import Pattern, noise


def _starts(*texts: str) -> list[Pattern]:
    """Messages known by how they begin; each text is one of them, cut where numbers begin."""
    return [Pattern(Noise, text, f"^{re.escape(text)}", {"all": text}) for text in texts]


MEMORY = [
    noise(
        "memory stack hunk malloc(",
        all="misc/utils.cc:291 (allocateSpilled) memory stack hunk malloc(65536)",
    ),
    noise(
        "lloc Size ",
        all="CUMEM Host Alloc Size 8 pointer 0x1 handle 5 numa 0 dev 0 granularity 2097152",
    ),
    noise(
        "llocAsync Size ",
        all="channel.cc:36 (initChannel) Cuda CallocAsync Size 384 pointer 0x7f memType 1",
    ),
    noise("alloc Size ", all="init.cc:60 Cuda Calloc Size 384 pointer 0x7f"),
    noise("allocated shareable ", all="CUMEM allocated shareable buffer 0x7f size 2097152"),
    *_starts(
        "register comm ",
        "deregister comm ",
        "MemManager: ",
        "Symmetric ",
        "GMF Buffer size ",
    ),
    Pattern(
        Noise,
        "egister",
        r"^rank \d+ ?-? ?(?:successfully (?:de)?registered|(?:IPC|NET|NVLS|COLLNET|P2P|CollNet) (?:de)?register|reuse|deregistered)",
        {
            "2.23+": "rank 0 - IPC register buffer 0x7f size 4096 (baseAddr 0x7f size 4096) to peer 1 regAddr 0x7f offsets 0",
            "2.24+": "rank 0 - NET register userbuff 0x7f (handle 0x55), buffSize 4096",
            "NVLS": "rank 0 successfully registered NVLS sendbuff 0x7f, recvbuff 0x7f",
        },
    ),
]

PROXY = [
    *_starts(
        "proxyProgressAsync opId=",
        "ncclPollProxyResponse ",
        "ncclProxyCallAsync",
        "NCCL_PROXY_CPUSET = ",
        "socketProgress",
        "ncclOsSocketProgressOpt: abort called",
        "Initialized state ",
        "Retrieving state for ",
    ),
    noise("Service UDS]", all="[Proxy Service UDS] exit: stop 1 abortFlag 0"),
]

RAS = [
    Pattern(
        Noise,
        "RAS ",
        r"^RAS (?!declaring|keep-alive|connect (?:retry )?timeout|failed)[a-z-]",
        {
            "2.24+": "RAS handling local addRanks request (old nRasPeers 0)",
            "2.24+ links": "RAS link -1: opening new primary connection with 192.0.2.2<40123>",
            "2.24+ end": "RAS thread terminating",
        },
    ),
]

PLUGINS = [
    Pattern(
        Noise,
        "/Plugin",
        r"^(?:NET|TUNER|PROFILER|ENV|GIN|RMA)/Plugin ?: (?:Using|Loaded|Failed to find \w+ symbol|Plugin name set by env"
        r"|dlerror=|No plugin found|Could not find|Assigned|Opened|Closing|Initialized|Falling back|Plugin load|found )",
        {
            "2.21+": "TUNER/Plugin: Using internal tuner plugin.",
            "2.13-2.27": "NET/Plugin: Failed to find ncclNetPlugin_v8 symbol.",
            "2.30+": "GIN/Plugin: Assigned plugin GIN_PROXY type 2 to comm",
        },
    ),
    *_starts(
        "Successfully loaded external ",
        "External network plugin ",
        "Assigned GIN plugin ",
        "Assigned RMA plugin ",
        "Plugin Path : ",
        "P2P plugin IBext",
    ),
    Pattern(
        Noise,
        "NET/OFI",
        r"^NET/OFI (?:Initializing aws-ofi-nccl|Using (?:Libfabric|CUDA|transport|Neuron)|Selected [Pp]rovider|Setting "
        r"|Configuring |Internode latency|Using transport protocol|Running on |No NIC info|Plugin selected|Creating one"
        r"|Need to force|Adding |Found |NIC group|GPUDirect|Latency|Support for|Could not find|Forcing|Overriding|Tuner)",
        {
            "aws-ofi-nccl 1.7+": "NET/OFI Initializing aws-ofi-nccl 1.9.1-aws",
            "provider": "NET/OFI Selected Provider is efa (found 4 nics)",
            "libfabric": "NET/OFI Using Libfabric version 1.20",
            "domain": "NET/OFI Creating one domain per process",
        },
    ),
    Pattern(
        Noise,
        "NET/",
        r"^NET/(?:FasTrak|FastSocket|GPUDirectTCPX|gIB|AWS Libfabric|UCX|IBext\w*)\b ?:? ?(?![^\n]{0,200}(?:fail|error|timeout))",
        {
            "FasTrak": "NET/FasTrak plugin initialized.",
            "FastSocket": "NET/FastSocket : Using [0]eth0:192.0.2.2<0> [1]eth1:192.0.2.3<0>",
            "UCX": "NET/UCX: Worker address length: 99",
        },
    ),
]

NETWORK = [
    Pattern(
        Noise,
        "NET/IB: ",
        r"^NET/IB: (?:NCCL Dev|Dev|IbDev|\[\d+\] |Made |GPU Direct)[^\n]{0,400}$",
        {
            "2.19+": "NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 2345 mtu 5 query_ece={supported=1} LID 12 subnet-prefix 1",
            "2.27+": "NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 context=0x55 pciPath=/sys/devices/pci0 ar=1",
        },
    ),
    Pattern(
        Noise,
        "NET/IB : ",
        r"^NET/IB : (?:Made virtual device|Using interface|Relaxed ordering|(?:Adaptive|AR)|Port |Dev )",
        {
            "2.24+": "NET/IB : Made virtual device [4] name=mlx5_0+mlx5_1 speed=800000 ndevs=2",
            "2.3": "NET/IB : Using interface eth0 for sideband communication",
        },
    ),
    Pattern(
        Noise,
        "NET/Socket",
        r"^NET/Socket ?: (?:Using \d+ threads and \d+ sockets|GPU Direct RDMA Disabled|Connected after|Maximum retry)",
        {"2.4+": "NET/Socket: Using 8 threads and 2 sockets per thread"},
    ),
    *_starts(
        "NET : Using interface ",
        "Local Net device counts across ranks: ",
        "Local CollNet device counts across ranks: ",
        "DMA-BUF is available on GPU device ",
        "GPUDirect RDMA ",
        "TOPO/NET : ",
    ),
]

OLD = [
    *_starts("Launch mode ", "CUDA Dev "),
    Pattern(
        Noise,
        "Trees enabled up to size",
        r"^Using \d+ threads, Min Comp Cap",
        {"2.4": "Using 256 threads, Min Comp Cap 7, Trees enabled up to size 479999"},
    ),
    Pattern(
        Noise,
        "rank ",
        r"^rank \d+ nranks \d+\s*$",
        {"2.0-2.3": "rank 0 nranks 2"},
    ),
    Pattern(
        Noise,
        "NVLink",
        r"^NVLink : \d+ links|^Using internal Network Socket|^NET/(?:IB|Socket) : \d+ device",
        {"2.0-2.2": "NVLink : 4 links"},
    ),
]

SETUP = [
    *_starts(
        "bootstrapSplit: comm ",
        "MSCCL++: ",
        "Threads per block : ",
        "Latency/AlgBw |",
        "Enabled NCCL Func/Proto/Algo Matrix",
        "NVLS ",
        "CollNetDirect channel ",
        "Collnet Chains ",
        "Connected Collnet ",
        "CollNet ",
        "Using tuner plugin ",
        "DEBUG file is ",
        "Diagnostics P2P ",
        "Duplicating rings to ",
        "Could not find a path for pattern ",
        "peer query failed between ",
        "RCCL Unroll ",
        "rocm_smi_lib: ",
        "initialized internal alternative rsmi ",
        "GFX9 cheap fence is ",
        "HIP version ",
        "ROCm version ",
        "Hostname ",
        "Librccl path ",
        "[node_id = ",
    ),
    Pattern(
        Noise,
        "MNNVL",
        r"^(?:MNNVL (?:rack|\d)|.{0,40}MNNVL (?:busId|is not))",
        {"2.28+": "MNNVL rack serial 0 slot 0 tray 0 hostId 0 peerType 0 moduleId 1"},
    ),
    Pattern(
        Noise,
        " has color with NCCL_SPLIT_NOCOLOR",
        r"^Rank \d+ has color with NCCL_SPLIT_NOCOLOR",
        {"2.18+": "Rank 3 has color with NCCL_SPLIT_NOCOLOR, not creating a new communicator"},
    ),
    Pattern(
        Noise,
        "local Net devices",
        r"^Rank \d+ has \d+ local Net devices",
        {"2.30+": "Rank 0 has 2 local Net devices (max 2)."},
    ),
    Pattern(
        Noise,
        " Bytes -> ",
        r"^(?:\w+(?: \[[\w ]+\])?: )?\d+ Bytes -> (?:Algo|Kernel|cudaMemcpy|RMA)",
        {
            "2.20-2.22": "4096 Bytes -> Algo 1 proto 0 time 12.300000",
            "2.27+": "AllReduce [Symmetric]: 4096 Bytes -> Kernel AllReduce_RSxLD_AGxST nchannels 4 nthreads 512",
        },
    ),
]

CALLS = [
    Pattern(
        Noise,
        "nccl",
        r"^nccl[A-Z]\w*\([^\n]*\)$",
        {
            "2.13+": "ncclAllReduce(7f1200,7f1400,1024,7,0,0,0x55d0,(nil))",
            "2.13+ init": "ncclCommInitRank(0x55d0, 8, 0xabc, 0, 0)",
            "2.13+ group": "ncclGroupStart()",
        },
    ),
    *_starts("## ["),
]

CHATTER = [*MEMORY, *PROXY, *RAS, *PLUGINS, *NETWORK, *OLD, *SETUP, *CALLS]
