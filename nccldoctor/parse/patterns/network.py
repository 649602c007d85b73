"""Interfaces, connections, InfiniBand and RoCE: what NCCL and Gloo complain of."""

from nccldoctor.model.events import fabric, machine, trouble
from nccldoctor.parse.pattern import Pattern, noise

_GIDS = r"(?: localGid (?P<local_gid>\S+) remoteGids ?(?P<remote_gid>\S+))?"
_HCA = r"(?:.{0,200}? hca (?P<hca>\S+))?"

NCCL = [
    Pattern(
        trouble.NoInterface,
        "interface found",
        r"^(?P<where>Bootstrap|NET/Socket|NET/IB) ?: [nN]o (?:socket |usable listening |IP )?interface found",
        {
            "2.3-2.32": "Bootstrap : no socket interface found",
            "socket": "NET/Socket : no interface found",
            "listening": "NET/Socket : No usable listening interface found",
            "IB": "NET/IB : No IP interface found.",
        },
    ),
    Pattern(
        trouble.NoInterface,
        "no device found matching ",
        r"no device found matching (?P<where>\S+), verify NCCL_OOB_NET_IFNAME",
        {"2.24+": "no device found matching =mlx5_9, verify NCCL_OOB_NET_IFNAME"},
    ),
    Pattern(
        trouble.NoInterface,
        "is neither AF_INET",
        r"connecting to address \S* ?(?P<where>with family \d+) is neither AF_INET",
        {
            "2.10-2.15": "Net : connecting to address  with family 33621 is neither AF_INET(2) nor AF_INET6(10)",
            "2.16+": "ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)",
        },
    ),
    Pattern(
        trouble.CompletionError,
        "Got completion ",
        r"Got completion (?:from peer (?P<peer>\S+) )?with (?:error |status=)(?:\w+\()?(?P<status>\d+)\)?,? "
        r"(?:.{0,120}?vendor[ _]err[ =](?P<vendor_error>\d+))?"
        r"(?: (?:\(|req_type=)?(?P<request>Unused|Send|Recv|Flush|IPut)\)?)?" + _GIDS + _HCA,
        {
            "2.3-2.9": "NET/IB : Got completion with error 12, opcode 1, len 32478, vendor err 129",
            "2.10-2.17": "NET/IB : Got completion from peer 10.0.0.2<40822> with error 12, opcode 0, len 0, vendor err 129",
            "2.18-2.19": "NET/IB : Got completion from peer 10.0.0.2<40822> with error 12, opcode 0, len 0, vendor err 129 (Send) localGid ::ffff:10.0.0.1 remoteGids::ffff:10.0.0.2",
            "2.20-2.21": "NET/IB : Got completion from peer 10.0.0.2<40822> with status=12 opcode=129 len=0 vendor err 129 (Recv)",
            "2.22-2.28.3": "NET/IB: Got completion from peer 10.0.0.2<40822> with status=5 opcode=0 len=0 vendor err 249 (Recv) hca mlx5_0",
            "2.28.7-2.28.9": "NET/IB: Got completion from peer 10.0.0.2<40822> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Send localGid ::ffff:10.0.0.1 remoteGids::ffff:10.0.0.2 hca mlx5_0",
            "2.29+": "NET/IB: Got completion from peer 10.0.0.2<40822> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) vendor_err=129 Send hca mlx5_0",
            "GIN": "NET/IB/GIN: Got completion from peer 10.0.0.2<40822> with status=12 opcode=0 len=0 vendor err 129 (IPut) hca mlx5_3",
        },
    ),
    noise(
        "Got CQE with error",
        all="NET/IB: Got CQE with error (devIndex=0, req=0x1, comm=0x2 (send), wr_id=7, qp_num=12)",
    ),
    Pattern(
        fabric.LibfabricFailed,
        " completed with error",
        r"^NET/OFI Request \S+ completed with error\. (?P<reason>RC: .{0,200}?)\.? *(?:Completed length.*)?$",
        {
            "1.0+": "NET/OFI Request 0x7f14cc5b60c0 completed with error. RC: 113. Error: 2 (UNDELIVERABLE). Completed length: 0"
        },
    ),
    Pattern(
        fabric.VerbFailed,
        "Call to ibv_",
        r"Call to (?P<call>ibv_\w+) failed with (?:error )?(?:(?P<number>\d+) )?(?P<reason>[^,(]*?)(?: errno (?:\d+))?"
        r"(?:,? (?P<detail>on dev .*))?\s*$",
        {
            "2.24+": "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.0.0.1, remote GID ::ffff:10.0.1.2",
            "2.3-2.23": "Call to ibv_modify_qp failed with error Invalid argument",
            "errno": "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory errno 12",
            "old": "Call to ibv_create_cq failed with error Cannot allocate memory",
        },
    ),
    Pattern(
        fabric.VerbFailed,
        "Call to ibv_",
        r"Call to (?P<call>ibv_\w+) failed\s*$",
        {"2.3-2.11, plugins": "Call to ibv_create_qp failed"},
        {"reason": ""},
    ),
    Pattern(
        fabric.VerbsMissing,
        "Failed to open libibverbs",
        r"Failed to open libibverbs",
        {"2.3+": "Failed to open libibverbs.so[.1]"},
    ),
    Pattern(
        fabric.DeviceUnusable,
        "NET/IB : Unable to ",
        r"^NET/IB : Unable to (?P<problem>open device|query device|query port)(?: (?P<device>\S+))?",
        {
            "2.3+": "NET/IB : Unable to open device mlx5_0",
            "query": "NET/IB : Unable to query device mlx5_1",
        },
    ),
    Pattern(
        fabric.PortEvent,
        "async fatal event",
        r"^NET/IB ?: (?P<device>\S+) async fatal event(?: on (?:QP|CQ) \(\S+\))?[^:]*: (?P<event>.*?)\s*$",
        {
            "2.23+": "NET/IB : mlx5_0:1 async fatal event: local catastrophic error",
            "QP": "NET/IB : mlx5_0:1 async fatal event on QP (0x7f3c10): local access violation work queue error",
        },
        {"fatal": True},
    ),
    Pattern(
        fabric.PortEvent,
        "async e",
        r"^NET/IB ?: (?:(?P<device>\S+) )?Got (?:non-fatal )?async (?:error )?event ?: (?P<event>[^(]*?)(?:\(\d+\))?\s*$",
        {
            "2.3-2.19": "NET/IB : Got async event : GID table change",
            "2.20-2.22": "NET/IB : mlx5_0:1 Got async event : port error",
            "2.23-2.28.3": "NET/IB : mlx5_0:1 Got async error event: port error",
        },
    ),
    Pattern(
        fabric.PortEvent,
        "non-fatal async event",
        r"^NET/IB ?: (?P<device>\S+) Got non-fatal async event: (?P<event>[^(]*?)(?:\(\d+\))?\s*$",
        {"2.28.7+": "NET/IB : mlx5_0:1 Got non-fatal async event: port error(10)"},
    ),
    Pattern(
        fabric.PortEvent,
        "GID table changed",
        r"^NET/IB ?: (?P<device>\S+) (?P<event>GID table changed)",
        {"2.28+": "NET/IB : mlx5_0:1 GID table changed"},
    ),
    Pattern(
        fabric.IncompatibleDevices,
        "incompatible",
        r"^NET/IB ?: (?P<message>(?:Attempted to (?:merge|connect) incompatible devices|Remote \w+ device is incompatible with).*)$",
        {
            "2.26+": "NET/IB : Attempted to connect incompatible devices: mlx5_0:1/IB and mlx5_4:1/RoCE. Try selecting NICs of only one link type using NCCL_IB_HCA"
        },
    ),
    Pattern(
        fabric.IncompatibleDevices,
        "different link_layer",
        r"^NET/IB ?: (?P<message>Can't (?:merge|connect) net devices with different link_layer.*)$",
        {
            "2.20-2.25": "NET/IB : Can't connect net devices with different link_layer. i=0 remMeta.ndevs=1"
        },
    ),
    Pattern(
        fabric.IncompatibleDevices,
        "has a different number of devices",
        r"^NET/IB ?: (?P<message>Local mergedDev .* has a different number of devices.*)$",
        {
            "2.20+": "NET/IB : Local mergedDev mlx5_0+mlx5_1 has a different number of devices=2 as remote 1"
        },
    ),
    Pattern(
        fabric.SizesDisagree,
        "collective mismatch error",
        r"^NET/IB ?: req \S+ tag \w+ peer (?P<peer>\S+) (?P<message>collective mismatch error, local size \d+ remote size \d+)",
        {
            "2.12-2.19": "NET/IB : req 1/1 tag 7 peer 10.0.0.2<40822> collective mismatch error, local size 32768 remote size 65536"
        },
    ),
    Pattern(
        fabric.SizesDisagree,
        "posted incorrect receive info",
        r"peer (?P<peer>\S+) (?P<message>posted incorrect receive info: size \d+)",
        {
            "2.12+": "NET/IB : req 1/1 tag 7 peer 10.0.0.2<40822> posted incorrect receive info: size 65536 addr 7f00 rkeys[0]=2f"
        },
    ),
    Pattern(
        fabric.SizesDisagree,
        "message truncated : receiving ",
        r"^NET/Socket : (?:peer (?P<peer>\S+) )?(?P<message>message truncated : receiving \d+ bytes instead of \d+)",
        {
            "2.3-2.9": "NET/Socket : message truncated : receiving 696320 bytes instead of 32768",
            "2.10+": "NET/Socket : peer 10.0.0.2<40822> message truncated : receiving 65536 bytes instead of 32768. If you believe your socket network is in a healthy state, there may be a mismatch in collective sizes",
        },
    ),
    Pattern(
        trouble.ConnectFailed,
        "exceeded error retry count",
        r"connect(?: to (?P<peer>\S+))? returned (?P<reason>[^,]*), exceeded error retry count",
        {
            "2.27+": "socketPollConnect: connect to 10.0.0.2<40822> returned Connection refused, exceeded error retry count after 35 attempts",
            "2.24-2.26": "socketPollConnect: connect returned No route to host, exceeded error retry count (35)",
        },
        {"peer": "an address that the line does not name"},
    ),
    Pattern(
        trouble.ConnectFailed,
        " failed : ",
        r"(?:Call to connect|Socket creation) failed : (?P<reason>.*?)\s*$",
        {
            "2.0-2.3": "Call to connect failed : Connection timed out",
            "2.0-2.4 socket": "Socket creation failed : Address family not supported by protocol",
        },
        {"peer": "an address that the line does not name"},
    ),
    Pattern(
        trouble.ConnectRetried,
        ", retrying",
        r"connect(?: to (?P<peer>\S+))? returned (?P<reason>[^,]*), retrying",
        {
            "2.24+": "socketPollConnect: connect to 10.0.0.2<40822> returned Connection refused, retrying (1/34) after sleep for 100 msec",
            "2.3-2.23": "Call to connect returned Connection refused, retrying",
        },
    ),
    Pattern(
        trouble.ConnectFailed,
        "onnect to ",
        r"[cC]onnect to (?P<peer>\S+) failed ?: (?P<reason>.*?)\s*$",
        {
            "2.4-2.23": "socketStartConnect: Connect to 192.168.19.14<52822> failed : No route to host",
            "2.27+": "socketStartConnect: connect to 192.168.19.14<52822> failed : Network is unreachable",
            "old": "Call to connect to 10.0.0.2<40822> failed : Connection timed out",
        },
    ),
    Pattern(
        trouble.ConnectFailed,
        "socketStartConnect: exceeded ",
        r"socketStartConnect: exceeded (?P<reason>retries|timeouts) \(\d+\)",
        {"2.4-2.23": "socketStartConnect: exceeded retries (20000)"},
        {"peer": "an address that the line does not name"},
    ),
    Pattern(
        fabric.CollnetUnavailable,
        "Cannot initialize CollNet",
        r"^Cannot initialize CollNet",
        {"2.6+": "Cannot initialize CollNet, using point-to-point network instead"},
    ),
    Pattern(
        machine.ConnectTimed,
        "P2P connect done in ",
        r"^timings: rank \d+ nranks \d+ P2P connect done in (?P<seconds>[\d.]+)",
        {"2.22+": "timings: rank 0 nranks 64 P2P connect done in 2.41"},
    ),
    noise("HINT", all="NET/IB: HINT: check NCCL_IB_GID_INDEX"),
]

TEXT = [
    Pattern(
        fabric.LibfabricFailed,
        "<warn> ",
        r"libfabric:\d+:\d+:\w*:efa:cq:\w+\(\):\d+<warn> (?:\w+: )?(?P<reason>err: \d+, (?:message|prov_err): [^(]{1,80}?)"
        r"(?: \(\d+\)| My EFA addr.*)?$",
        {
            "1.18+": "libfabric:4517:1708520807::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 5, message: Invalid address My EFA addr: fi_addr_efa://[fe80::1]:0:7 My host id: i-0 Peer EFA addr: fi_addr_efa://[fe80::2]:0:9 Peer host id: i-1 (7)",
            "before": "libfabric:35:1668017255::efa:cq:rxr_cq_write_tx_error():243<warn> rxr_cq_write_tx_error: err: 20, prov_err: Not a directory (20)",
        },
    ),
    Pattern(
        fabric.VerbFailed,
        "UCX",
        r"UCX +ERROR (?P<detail>\S+): (?P<call>ibv_\w+)\(\) failed: (?P<reason>[^.]+)",
        {
            "UCX": "[1668693503.473099] [gpu-1:1188443:0]          ib_log.c:246  UCX  ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory. Please set max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)"
        },
    ),
    Pattern(
        fabric.VerbFailed,
        "UCX",
        r"UCX +ERROR (?P<call>ibv_\w+)(?:\([^)]*\))? failed: (?P<reason>[^.]+)",
        {
            "UCX, old": "[1652.4] [gpu-1:44:0] ib_iface.c:988 UCX ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate memory"
        },
    ),
    Pattern(
        trouble.NoInterface,
        "Unable to find address for: ",
        r"Unable to find address for: (?P<where>\S+)",
        {
            "Gloo": "RuntimeError: [enforce fail at /gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find address for: eth9"
        },
    ),
]
