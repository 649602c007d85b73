"""Dialects that the recorded runs do not have: NCCL before 2.3, RCCL, and plugins under NCCL's header."""

import io

from nccldoctor.model.calls import Call
from nccldoctor.model.digest import Digest
from nccldoctor.model.events.nccl import (
    CommComplete,
    Edge,
    NetDevices,
    RingOrder,
    TopologyLine,
    Version,
)
from nccldoctor.model.events.trouble import CudaFailure, Warned
from nccldoctor.model.source import Kind, Source
from nccldoctor.parse.logs import read

BEFORE_2_3 = """\
node1:4021:4021 [0] INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
node1:4021:4021 [0] transport/p2p.cu:431 WARN failed to open CUDA IPC handle : 30 unknown error
INFO NVLink : 4 links
10:11:12 [3] INFO step 4 is done
"""

MIXED = """\
node1:1234:1299 [0] NCCL INFO RCCL version : 2.21.5-HEAD:0cbce2a
HIP version  : 6.2.41133-dd7f95766
ROCm version : 6.2.0.0-66-04deb89
Hostname     : node1
Librccl path : /opt/rocm/lib/librccl.so.1
node1:1234:1299 [0] NCCL INFO Channel 00/0 : 0[c1000] -> 1[c6000] via P2P/IPC comm 0x7f00 nRanks 08
node1:1234:1299 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1 comm 0x7f00 nRanks 08 busId c1000
node1:1234:1299 [0] NCCL INFO Connected all rings comm 0x7f00 nRanks 08 busId c1000
node1:1234:1299 [0] NCCL INFO Ring 0 : 7 -> 0 -> 1 comm 0x7f00 nRanks 08 busId c1000
node1:1234:1299 [0] NCCL INFO ncclCommInitRank comm 0x7f00 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId c1000 commId 0x8c5f localSize 224 used 90112 bytes on core 12 - Init COMPLETE
node1:1234:1299 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7f0 recvbuff 0x7f1 count 1024 datatype 7 op 0 root 0 comm 0x7f00 [nranks=8] stream 0x55 task 0 globalrank 0
node1:1234:1299 [0] [FATAL ERROR]: HIP failure: 'out of memory'
node1:1234:1299 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.7.4-aws
node1:1234:1299 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)
node1:1234:1299 [0] ofi_process_cq:1000 NCCL WARN NET/OFI Request 0x7f completed with error. RC: 113. Error: unreachable
node1:1234:1299 [0] NCCL INFO === System : maxBw 24.0 totalBw 48.0 ===
node1:1234:1299 [0] NCCL INFO CPU/0 (1/1/2)
node1:1234:1299 [0] NCCL INFO + PCI[24.0] - GPU/c1000 (0)
node1:1234:1299 [0] NCCL INFO               + XGMI[48.0] - GPU/c6000
node1:1234:1299 [0] NCCL INFO GPU/C1000 :GPU/C1000 (0/5000.000000/LOC) GPU/C6000 (1/48.000000/XGMI) CPU/0 (1/24.0/PHB)
node1:1234:1299 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 2, bw 24.000000/24.000000, type XGMI/PIX, sameChannels 1
node1:1234:1299 [0] NCCL INFO  0 : GPU/0 GPU/1 GPU/2
node1:1234:1299 [0] NCCL INFO threadThresholds 8/8/64 | 64/8/64 | 256 | 256
node1:1234:1299 [0] NCCL INFO   Algorithm   |                            Tree                  |                            Ring                  |
node1:1234:1299 [0] NCCL INFO Latency/AlgBw |   Tree/    LL |   Tree/ LL128 |
node1:1234:1299 [0] NCCL INFO Enabled NCCL Func/Proto/Algo Matrix:
     Function |       LL     LL128    Simple   |          Tree           Ring
    Broadcast |         1         2         1  |             1              1
node1:1234:1299 [0] NCCL INFO Setting affinity for GPU 0 to ffff,ffff0000
node1:1234:1299 [0] NCCL INFO Bootstrap : Using [0]eth0:10.0.0.1<0>
node1:1234:1299 [0] NCCL INFO NET : Using interface eth0:10.0.0.1<0>
node1:1234:1299 [0] NCCL INFO NET/IB : Using interface eth0 for sideband communication
node1:1234:1299 [0] NCCL INFO comm 0x7f1c38000dc0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 - Init COMPLETE
node1:1234:1299 [0] NCCL INFO Ring 00 :    0   1   2   3
node1:1234:1299 [0] NCCL INFO Ring 00 : 0[0] -> 1[1] via P2P/IPC
node1:1234:1299 [0] NCCL INFO Channel 00 :    0   1
node1:1234:1299 [0] NCCL INFO Channel 00 : 0[1a000] -> 1[1b000] via direct shared memory
node1:1234:1299 [0] NCCL INFO Trees [0] 1->0->2/-1/-1 [1] -1->0->1/-1/-1
node1:1234:1299 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1|-1->0->1/-1/-1
node1:1234:1299 [0] NCCL INFO Using 256 threads, Min Comp Cap 7, Trees enabled up to size 479999
node1:1234:1299 [0] NCCL INFO CUDA Dev 0[0], Socket NIC distance :  SYS
node1:1234:1299 [0] NCCL INFO 2 coll channels, 2 p2p channels, 1 p2p channels per peer
node1:1234:1299 [0] NCCL INFO Launch mode Group/CGMD
node1:1234:1299 [0] NCCL INFO Launch mode Parallel
node1:1234:1299 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation
node1:1234:1299 [0] misc/ibvwrap.cu:63 NCCL WARN Failed to open libibverbs.so[.1]
node1:1234:1299 [0] NCCL INFO rank 0 nranks 2
node1:1234:1299 [0] NCCL INFO Could not enable P2P between dev 0(=c1000) and dev 1(=c6000)
node1:1234:1299 [0] NCCL INFO NET/FastSocket : Using [0]eth0:10.0.0.1<0>
node1:1234:1299 [0] NCCL INFO NET/gIB : Initializing gIB v1.0.5
node1:1234:1299 [0] NCCL INFO P2P plugin IBext_v8
node1:1234:1299 [0] NCCL INFO NET/IBext_v8 : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>
node1:1234:1299 [0] NCCL INFO Plugin Path : /opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so
node1:1234:1299 [0] 3.141593 initTransportsRank:612 NCCL TRACE hostHash[1] 4f
node1:1234:1299 NCCL CALL ncclAllReduce(7f1,7f2,1024,7,0,0,0x55,(nil))
node1:1234:1299 [0] NCCL INFO ## [012.345] [00:01] KL hwid
"""


def digest(text: str) -> Digest:
    return read(Source("log", Kind.LOG, len(text)), io.BytesIO(text.encode()))


def kinds(result: Digest) -> list[str]:
    return [type(event).__name__ for event in result.events]


def test_bare_levels_before_2_3_are_records_and_times_are_not() -> None:
    result = digest(BEFORE_2_3)
    assert result.coverage.records == 2
    assert isinstance(result.events[0], NetDevices)
    assert result.events[0].speaker.host == "node1"


def test_every_record_of_every_dialect_is_understood() -> None:
    result = digest(MIXED)
    assert result.coverage.unknown == ()
    assert result.coverage.records == MIXED.count("\nnode1:") + 1


def test_rccl_says_as_much_as_nccl() -> None:
    result = digest(MIXED)
    versions = [e for e in result.events if isinstance(e, Version)]
    assert [(v.library, v.version) for v in versions] == [("rccl", "2.21.5")]
    edges = [e for e in result.events if isinstance(e, Edge)]
    assert (edges[0].transport, edges[0].detail, edges[0].source_device) == ("P2P", "IPC", "c1000")
    (complete, old) = [e for e in result.events if isinstance(e, CommComplete)]
    assert (complete.comm_id, complete.bus_id, old.comm_id) == ("0x8c5f", "c1000", None)
    (table,) = result.calls
    assert table.tail == (Call("AllReduce", 1024, "float32", "sum", 0),)
    assert "XGMI" in {e.link for e in result.events if isinstance(e, TopologyLine)}
    assert any(isinstance(e, CudaFailure) and e.reason == "out of memory" for e in result.events)


def test_old_ring_lines_are_rings_and_edges() -> None:
    rings = [e for e in digest(MIXED).events if isinstance(e, RingOrder)]
    assert [ring.ranks.split() for ring in rings] == [["0", "1", "2", "3"], ["0", "1"]]


def test_a_plugins_warning_is_kept() -> None:
    text = "node1:1234:1299 [0] ofi_process_cq:1000 NCCL WARN NET/OFI Peer 3 does not answer\n"
    warned = [e for e in digest(text).events if isinstance(e, Warned)]
    assert [event.message for event in warned] == ["NET/OFI Peer 3 does not answer"]
