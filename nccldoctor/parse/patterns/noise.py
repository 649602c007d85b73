"""Known messages that no diagnosis needs. They count as understood, and are dropped."""

from nccldoctor.model.events.nccl import Noise
from nccldoctor.parse.pattern import Pattern, noise
from nccldoctor.parse.patterns.chatter import CHATTER

NCCL = [
    noise("Connected to proxy", all="Connected to proxy localRank 0 -> connection 0x7fdfc0004f70"),
    noise(
        "Connection to proxy", all="Connection to proxy localRank 0 -> connection 0x7fdfc0004f70"
    ),
    noise("New proxy ", all="New proxy recv connection 0 from local rank 0, transport 2"),
    noise("[Proxy ", all="[Proxy Service] Device 0 CPU core 25"),
    noise("UDS", all="UDS converted handle 0x7f451c00c9c0 to fd 73 on remote peer 6"),
    noise(
        "llocated shareable buffer",
        all="Allocated shareable buffer 0x7fe015000000 size 2097152 ipcDesc 0x7fdfc0009ea0",
    ),
    noise(
        "mported shareable buffer",
        all="Imported shareable buffer device 0 size 2097152 ptr 0x4a36a00000",
    ),
    noise(
        "lloc Size ",
        all="channel.cc:39 Cuda Alloc Size 1152 pointer 0x7fe0",
        host="Host Calloc Size 8 pointer 0x1",
    ),
    noise("Mem Realloc ", all="Mem Realloc old size 0, new size 512 pointer 0x5f"),
    noise("opId=", all="resp.opId=0x7f2c matches expected opId=0x7f2c"),
    noise("Received and initiated operation=", all="Received and initiated operation=Init res=0"),
    noise(
        "Could not get speed from ",
        all="Could not get speed from /sys/class/net/lo/speed. Defaulting to 10 Gbps.",
    ),
    noise("Comm config ", all="Comm config Blocking set to 1"),
    noise("P2P Chunksize set to ", all="P2P Chunksize set to 131072"),
    noise("Check P2P Type ", all="Check P2P Type isAllDirectP2p 1 directMode 0 isAllCudaP2p 1"),
    noise("threadThresholds ", all="threadThresholds 8/8/64 | 64/8/64 | 512 | 512"),
    noise("ncclP2pSchedule", all="ncclP2pSchedule: group size used is 2"),
    noise("MNNVL ", all="MNNVL busId 0x60 fabric UUID 0.0 cliqueId 0x0 state 3 healthMask 0x0"),
    noise(
        "Topology detection",
        all="Topology detection : could not read /sys/devices/system/node/node-1/cpumap, ignoring",
    ),
    noise(
        "Could not find real path of ",
        all="Could not find real path of /sys/class/pci_bus/fffffff/../../fffffff:ff:f",
    ),
    noise("TOPO/NET : Importing", all="TOPO/NET : Importing network plugins to topology"),
    noise(
        "ncclTopoPopulateNics",
        all="ncclTopoPopulateNics : Filled lo in topo with pciPath=(null) keep=1 coll=(null)",
    ),
    noise(
        "Affinity for GPU ",
        all="ncclTopoGetCpuAffinity: Affinity for GPU 0 is 0-31. (GPU affinity = 0-31 ; CPU affinity = 0-31).",
    ),
    noise("No plugin found", all="NET/Plugin : No plugin found, using internal implementation"),
    noise("Setting affinity for GPU ", all="Setting affinity for GPU 0 to ffff,ffffffff"),
    noise("RAS client listening socket at ", all="RAS client listening socket at 127.0.0.1<28028>"),
    noise(
        "Bootstrap timings ",
        all="Bootstrap timings total 0.020872 (create 0.000036, send 0.000109, recv 0.020289, ring 0.000078, delay 0.000001)",
    ),
    noise(
        "Socket handshake magic", all="Socket handshake magic 0x564ab9f2fc4b9d6c (built-in default)"
    ),
    noise(
        "Plugin load",
        all="NET/Plugin: Plugin load returned 2 : (null) : when loading libnccl-net.so",
    ),
    noise(
        "ncclOsDlopen(",
        all="ncclOsDlopen(libnccl-env.so) failed: libnccl-env.so: cannot open shared object file: No such file or directory",
    ),
    noise(
        "Failed to load external plugin",
        all="GIN/Plugin: Failed to load external plugin libnccl-gin.so, dlHandle: (nil), ncclGin: (nil)",
    ),
    noise("Using internal network plugin", all="NET/Plugin: Using internal network plugin."),
    noise("Initialized NET plugin ", all="Initialized NET plugin Socket"),
    noise("Assigned NET plugin ", all="Assigned NET plugin Socket to comm"),
    noise(
        "Failed to initialize any GIN plugin", all="GIN/Plugin: Failed to initialize any GIN plugin"
    ),
    noise("RMA/Plugin: Failed to initialize", all="RMA/Plugin: Failed to initialize any plugin"),
    noise(
        "rma_socket requires GDRCopy",
        all="RMA/Socket : rma_socket requires GDRCopy; and GDR Copy is not available",
    ),
    noise("Unable to use GIN", all="Unable to use GIN: Peermem is not supported, nor DMA-BUF."),
    noise("lib wrapper not initialized", all="lib wrapper not initialized."),
    noise("Using non-device net plugin", all="Using non-device net plugin version 0"),
    noise("Loaded NVML from ", all="Loaded NVML from libnvidia-ml.so.1"),
    noise("NCCL git version ", all="NCCL git version HEAD a5187fa2e"),
    noise(
        "dlvsym failed on ",
        all="dlvsym failed on mlx5dv_reg_dmabuf_mr - libmlx5.so: undefined symbol",
    ),
    noise("CC Off", all="CC Off, workFifoBytes 1048576"),
    noise("CC On", all="CC On, workFifoBytes 1048576"),
    noise("NVLS multicast support is ", all="NVLS multicast support is not available on dev 0"),
    noise("Symmetric VA size=", all="Symmetric VA size=144GB"),
    noise(
        "Symmetric memory is not supported",
        all="Symmetric memory is not supported. cuMemEnable 1, globalGinSupport 0",
    ),
    noise("symmetricSupport ", all="symmetricSupport 1, cuMemEnable 1, globalGinSupport 0"),
    noise("Closing env plugin", all="ENV/Plugin: Closing env plugin ncclEnvDefault"),
    noise("Tuning P2P operations", all="Tuning P2P operations with maxP2pPeers = 2"),
    noise("Best tuning, ", all="Best tuning, algorithm, RING, protocol, SIMPLE"),
    noise(
        "Could not get device class for NVLink target",
        all="Could not get device class for NVLink target fffffff:ff:ff.0, assuming NVSwitch",
    ),
    noise(
        "KV Convert to int",
        all="KV Convert to int : could not find value of '' in dictionary, falling back to 60",
    ),
    noise("proxy listening socket at ", all="proxy listening socket at 192.0.2.2<40123>"),
    noise("NCCL_SOCKET_IFNAME set to ", all="NCCL_SOCKET_IFNAME set to lo"),
    noise(
        "[Service thread] Connection closed by localRank",
        all="[Service thread] Connection closed by localRank 0",
    ),
    noise(
        "ProxyCall ",
        all="ProxyCall UDS comm 0x1 rank 0 tpRank 1(f2) reqSize 8 respSize 0 respFd 0x1 opId 0x2",
    ),
    Pattern(Noise, "Ring ", r"^Ring \d+ : \d+ -> \d+ -> \d+", {"2.10+": "Ring 00 : 5 -> 6 -> 7"}),
    Pattern(
        Noise, "Tree ", r"^Tree \d+ : -?\d+ -> \d+ -> ", {"2.8+": "Tree 0 : 4 -> 6 -> 7/-1/-1"}
    ),
    Pattern(
        Noise,
        "Channel ",
        r"^Channel \d+/\d+ : *\d+",
        {"2.23+, cut": "Channel 00/24 : 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ..."},
    ),
    Pattern(
        Noise,
        " : ",
        r"^ *\d+ : (?:(?:GPU|NET|NVS|DEV)/[\w\-]+ ?)+$",
        {"2.6+": " 0 : NET/0-0 GPU/0-60 GPU/0-70 NET/0-0"},
    ),
    Pattern(
        Noise,
        "|",
        r"^ *(?:Algorithm|Protocol|Max NThreads|Broadcast|Reduce|AllGather|ReduceScatter|AllReduce) +\|",
        {"2.18+": "    Broadcast |     6.3/   9.0 |"},
    ),
    Pattern(
        Noise,
        "devices",
        r"^Rank \d+: \d+ (?:Net|CollNet) devices",
        {"2.30+": "Rank 0: 1 Net devices"},
    ),
    *CHATTER,
]
