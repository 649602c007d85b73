"""Lines of PyTorch's process groups, store and elastic agent, and of Gloo; 2.0 to 2.14."""

from nccldoctor.model.events import torch, trouble
from nccldoctor.parse.pattern import Pattern

_GROUP = r"\[PG (?:ID )?(?P<group_id>\d+)(?: PG GUID (?P<group>[^\s(\]]+))?(?: ?\((?P<description>[^)]*)\))? Rank (?P<group_rank>\d+)\]"

_OLD_GROUP = r"\[PG (?P<group>\d+)(?: ?\((?P<description>[^)]*)\))? Rank (?P<group_rank>\d+)\]"
"""Before 2.5 a group is told by its name alone."""

_FAULTS = {
    4: "Illegal instruction",
    7: "Bus error",
    9: "Killed",
    11: "Segmentation fault",
}
"""Signals that say what befell the process; SIGTERM and SIGABRT mostly follow from another's end."""

_LAUNCHERS = [
    *(
        Pattern(
            torch.ProcessEnded,
            f"exited on signal {number} ",
            r"process rank (?P<ended_rank>\d+) with PID (?:0|(?P<ended_pid>\d+)) on node (?P<ended_host>\S+) exited on "
            rf"signal {number} \(",
            {
                "Open MPI": f"mpirun noticed that process rank 3 with PID 4711 on node gpu-1 exited on signal {number} ({name})."
            },
            {"exit_code": -number, "first": True},
        )
        for number, name in _FAULTS.items()
    ),
    Pattern(
        torch.ProcessEnded,
        "exits with return code = ",
        r"sigkill_handler\] \[.{0,4000}?'--local_rank=(?P<ended_local_rank>\d+)'.{0,4000}\] exits with return code = (?P<exit_code>-?\d+)",
        {
            "DeepSpeed": "[2023-04-14 13:11:27,885] [ERROR] [launch.py:434:sigkill_handler] ['/usr/bin/python3', '-u', 'main.py', '--local_rank=0', '--deepspeed'] exits with return code = -9"
        },
    ),
    *(
        Pattern(
            torch.ProcessEnded,
            f": {name}",
            rf"^srun: error: (?P<ended_host>[\w.-]+): tasks? [\d,-]+: {name}",
            {"Slurm": f"srun: error: gpu-1: task 3: {name} (core dumped)"},
            {"exit_code": -number},
        )
        for number, name in _FAULTS.items()
        if number != 9
    ),
]
"""Slurm kills the rest of a step with SIGKILL, so its `Killed` says nothing."""

TEXT = [
    *_LAUNCHERS,
    Pattern(
        torch.WatchdogTimeout,
        "Watchdog caught collective operation timeout",
        r"\[(?:PG [^\]\n]{1,120} )?Rank (?P<group_rank>\d+)\] Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<sequence>\d+), "
        r"OpType=(?P<op>\w+), (?:NumelIn=(?P<elements_in>\d+), NumelOut=(?P<elements_out>\d+), )?"
        r"Timeout\(ms\)=(?P<timeout_ms>\d+)\) ran for (?P<ran_ms>\d+) milliseconds",
        {
            "2.1+": "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=20000) ran for 20026 milliseconds before timing out.",
            "after 2.13": "[PG GUID 2(dp) Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.",
            "2.0": "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=96120, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800116 milliseconds before timing out.",
        },
    ),
    Pattern(
        torch.GroupProgress,
        "failure detected by watchdog at work sequence id",
        _GROUP
        + r"\s+failure detected by watchdog at work sequence id: (?P<failed_sequence>\d+) PG status: "
        r"last enqueued work: (?P<enqueued>-?\d+), last completed work: (?P<completed>-?\d+)",
        {
            "2.6+": "[PG ID 0 PG GUID 0(default_pg) Rank 0]  failure detected by watchdog at work sequence id: 4 PG status: last enqueued work: 4, last completed work: 3"
        },
    ),
    Pattern(
        torch.GroupProgress,
        "last enqueued NCCL work: ",
        _OLD_GROUP
        + r" (?:Timeout at NCCL work|Exception \(either an error or timeout\) detected by watchdog at work): "
        r"(?P<failed_sequence>\d+), last enqueued NCCL work: (?P<enqueued>-?\d+), last completed NCCL work: (?P<completed>-?\d+)",
        {
            "2.3": "[PG 1 Rank 0] Timeout at NCCL work: 12, last enqueued NCCL work: 14, last completed NCCL work: 11.",
            "2.4": "[PG 0 (default_pg) Rank 6] Exception (either an error or timeout) detected by watchdog at work: 5, last enqueued NCCL work: 5, last completed NCCL work: 4.",
        },
    ),
    Pattern(
        torch.GroupProgress,
        "last enqueued NCCL work: ",
        _GROUP
        + r" (?:Timeout at NCCL work|Exception \(either an error or timeout\) detected by watchdog at work): "
        r"(?P<failed_sequence>\d+), last enqueued NCCL work: (?P<enqueued>-?\d+), last completed NCCL work: (?P<completed>-?\d+)",
        {
            "2.3-2.5": "[PG 1 Rank 0] Timeout at NCCL work: 12, last enqueued NCCL work: 14, last completed NCCL work: 11.",
            "2.4-2.5": "[PG 0 (default_pg) Rank 6] Exception (either an error or timeout) detected by watchdog at work: 5, last enqueued NCCL work: 5, last completed NCCL work: 4.",
        },
    ),
    Pattern(
        torch.DumpSignal,
        "Received a dump signal",
        _GROUP
        + r" Received a dump signal due to a collective timeout from (?:this local rank|\s?rank (?P<origin>\d+)) and .{0,80}?"
        r"Last enqueued NCCL work: (?P<enqueued>-?\d+), last completed NCCL work: (?P<completed>-?\d+)",
        {
            "2.5+": "[PG ID 0 PG GUID 0(default_pg) Rank 7] Received a dump signal due to a collective timeout from  rank 5 and we will try our best to dump the debug info. Last enqueued NCCL work: 3, last completed NCCL work: 3.This is most likely",
            "2.5+ own": "[PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the debug info. Last enqueued NCCL work: 4, last completed NCCL work: 3.This",
        },
    ),
    Pattern(
        torch.WatchdogStuck,
        "watchdog got stuck for ",
        r"watchdog got stuck for (?P<seconds>\d+) seconds",
        {
            "2.3+": "[PG ID 0 PG GUID 0 Rank 0] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives."
        },
    ),
    Pattern(
        torch.WatchdogStuck,
        "Heartbeat monitor timed out",
        r"Heartbeat monitor timed out! Process will be terminated",
        {
            "2.2-2.5": "[PG 0 Rank 1] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=103"
        },
    ),
    Pattern(
        torch.WatchdogStuck,
        "detected no heartbeat of its watchdog",
        r"detected no heartbeat of its watchdog",
        {"2.4+": "[PG 3 Rank 7] First PG on this rank that detected no heartbeat of its watchdog."},
    ),
    Pattern(
        torch.FingerprintMismatch,
        "Detected mismatch between collectives on ranks",
        r"Rank (?P<rank>\d+) is running collective: CollectiveFingerPrint\((?:SequenceNumber=(?P<sequence>\d+),? ?)?OpType=(?P<op>\w+)"
        r"(?:, TensorShape=\[(?P<shape>[^\]]*)\])?(?:, TensorDtypes=(?P<dtype>\w+))?.*?"
        r"but Rank (?P<other_rank>\d+) is running collective: CollectiveFingerPrint\((?:SequenceNumber=(?P<other_sequence>\d+),? ?)?"
        r"OpType=(?P<other_op>\w+)(?:, TensorShape=\[(?P<other_shape>[^\]]*)\])?(?:, TensorDtypes=(?P<other_dtype>\w+))?",
        {
            "2.0+": "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[4], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu)), but Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=0, OpType=ALLREDUCE, TensorShape=[8], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cpu)).Collectives differ in the following aspects: \t Tensor Tensor shapes: 4vs 8"
        },
    ),
    Pattern(
        trouble.OddCollective,
        "is running inconsistent collective",
        r"Rank (?P<odd_rank>\d+) is running inconsistent collective: CollectiveFingerPrint\((?:SequenceNumber=\d+, ?)?OpType=(?P<op>\w+)",
        {
            "1.9-1.12": "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running inconsistent collective: CollectiveFingerPrint(OpType=BARRIER)"
        },
    ),
    Pattern(
        torch.BackendError,
        "NCCL error in: ",
        r"NCCL error in: \S+:\d+, (?P<error>[^,(]+?)(?: \(run with NCCL_DEBUG=\w+ for details\))?(?:, NCCL version (?P<nccl_version>\S+)|\s*$)",
        {
            "1.13+": "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3135, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.28.9",
            "1.0": "what():  NCCL error in: /pytorch/torch/lib/c10d/../c10d/NCCLUtils.hpp:29, unhandled cuda error",
            "2.0": "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, unhandled system error, NCCL version 2.18.6",
        },
    ),
    Pattern(
        torch.BackendError,
        "NCCL ",
        r"NCCL (?:[Ee]rror|[Ff]ailure|[Oo]peration \w+\(.{0,200}\) failed)(?: \d+)?(?: \S+:\d+)? ?:? ?'?"
        r"(?P<error>unhandled cuda error|unhandled system error|internal error|invalid argument|invalid usage"
        r"|remote process exited or there was a network error)(?:.{0,400}?NCCL version (?P<nccl_version>\d[\w.]*))?"
        r"(?:.{0,100}?Last NCCL warning\(error\) log entry \(may be unrelated\) '(?P<last_error>[^']{1,400})')?",
        {
            "vLLM": "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
            "watchdog": "Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.21.5",
            "nccl-tests": "gpu-1: Test NCCL failure common.cu:1057 'internal error / '",
            "TensorRT-LLM": "Assertion failed: Failed, NCCL error ../tensorrt_llm/runtime/ncclCommunicator.cpp:90 'invalid usage (run with NCCL_DEBUG=WARN for details)'",
            "JAX": "NCCL operation ncclCommInitRank(&comm, nranks, id, rank) failed: unhandled cuda error (run with NCCL_DEBUG=INFO for details).",
            "JAX, 2024+": "NCCL operation ncclCommInitRank(&comm, nranks, id, rank) failed: unhandled system error (run with NCCL_DEBUG=INFO for details). Last NCCL warning(error) log entry (may be unrelated) 'socketTryAccept: Accept failed: Bad file descriptor'.",
            "1.0+, DataParallel": "RuntimeError: NCCL Error 1: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        },
    ),
    Pattern(
        torch.BackendError,
        " failed: ",
        r"\bnccl[A-Z]\w+ failed: (?P<error>unhandled cuda error|unhandled system error|internal error|invalid argument"
        r"|invalid usage|remote process exited or there was a network error)",
        {"Horovod": "ncclCommInitRank failed: unhandled system error"},
    ),
    Pattern(
        torch.BackendError,
        "NCCL: ",
        r"\bNCCL: (?P<error>unhandled cuda error|unhandled system error|internal error|invalid argument|invalid usage"
        r"|remote process exited or there was a network error)",
        {
            "TensorFlow": "(5) INTERNAL:  NCCL: unhandled system error. Set NCCL_DEBUG=WARN for detail."
        },
    ),
    Pattern(
        torch.BackendError,
        "Nccl error, ",
        r"Nccl error, (?P<error>unhandled cuda error|unhandled system error|internal error|invalid argument|invalid usage)",
        {
            "Paddle": "ExternalError:  Nccl error, unhandled system error  at (/paddle/fluid/imperative/nccl_context.cc:110)"
        },
    ),
    *(
        Pattern(
            torch.BackendError,
            f"{name}: {words}",
            f"{name}: {words}",
            {"1.9+": f"{name}: {words}"},
            {"error": error},
        )
        for name, words, error in (
            ("ncclUnhandledCudaError", "Call to CUDA function failed", "unhandled cuda error"),
            ("ncclSystemError", "System call ", "unhandled system error"),
            ("ncclInternalError", "Internal check failed", "internal error"),
            ("ncclInvalidArgument", "Invalid value for an argument", "invalid argument"),
            ("ncclInvalidUsage", "This usually reflects invalid usage", "invalid usage"),
            (
                "ncclRemoteError",
                "A call failed possibly",
                "remote process exited or there was a network error",
            ),
        )
    ),
    Pattern(
        torch.StoreTimeout,
        "Termination timeout for ",
        r"(?P<what>Termination timeout for `[^`]{1,200}` of \d+ seconds exceeded)"
        r".{0,200}?Expected (?P<expected>\d+) threads to join the rendezvous, but (?:only (?P<joined>\d+)|not all) of them",
        {
            "XLA": "F external/xla/xla/service/rendezvous.cc:52] Termination timeout for `initialize clique for rank 6; stream=0; run_id=7` of 40 seconds exceeded. Exiting to ensure a consistent program state. Expected 8 threads to join the rendezvous, but not all of them arrived on time.",
            "XLA, 2025": "F external/xla/xla/service/rendezvous.cc:127] Termination timeout for `acquire communicator for rank 1` of 40 seconds exceeded. Exiting to ensure a consistent program state. Expected 4 threads to join the rendezvous, but only 3 of them arrived on time.",
        },
    ),
    Pattern(
        torch.StoreTimeout,
        " joined",
        r"(?P<what>Timed out after \d+ seconds waiting for (?:client|worker)s). (?P<joined>\d+)/(?P<expected>\d+) (?:client|worker)s joined",
        {
            "2.0-2.1": "RuntimeError: Timed out after 1801 seconds waiting for workers. 1/2 workers joined.",
            "2.2+": "torch.distributed.DistStoreError: Timed out after 9 seconds waiting for clients. 1/2 clients joined.",
        },
    ),
    Pattern(
        torch.StoreTimeout,
        "The client socket has timed out after ",
        r"(?P<what>The client socket has timed out after \d+m?s) while trying to connect to \((?P<address>[^)]*)\)",
        {
            "2.0+": "[E1130 04:06:31.313575390 socket.cpp:1028] [c10d] The client socket has timed out after 8000ms while trying to connect to (127.0.0.1, 35001)."
        },
    ),
    Pattern(
        torch.IdAwaited,
        "retrieving ncclUniqueId from [",
        r"\[(?P<group_rank>\d+)\] is setting up NCCL communicator and retrieving ncclUniqueId from \[(?P<root>\d+)\] via c10d "
        r"key-value store by key '[^']{0,80}', but (?:store->get\('[^']{0,80}'\) )?got error: (?:Socket Timeout|Wait timeout|"
        r"wait timeout after \d+ms(?:, keys: /default_pg/0//(?:(?P<group>\d+)//)?cuda//0)?)",
        {
            "2.0-2.4": "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout",
            "2.5+": "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: /default_pg/0//2//cuda//0",
        },
    ),
    Pattern(
        torch.StoreTimeout,
        "store_based_barrier_key:",
        r"(?P<what>Timed out initializing process group in store based barrier) on rank:? ?\d+, for key: "
        r"store_based_barrier_key:(?:1(?= \(world_size=\d{1,9}, worker_count)|0|default_pg|(?P<group>\d{1,9})) "
        r"\(world_size=(?P<expected>\d+), (?:num_workers_joined|worker_count)=(?P<joined>\d+)",
        {
            "1.7-2.0": "RuntimeError: Timed out initializing process group in store based barrier on rank: 2, for key: store_based_barrier_key:1 (world_size=4, worker_count=3, timeout=0:30:00)",
            "2.1+": "torch.distributed.DistStoreError: Timed out initializing process group in store based barrier on rank 2, for key: store_based_barrier_key:2 (world_size=4, num_workers_joined=3, timeout=0:30:00)",
        },
    ),
    Pattern(
        torch.StoreTimeout,
        "ms, keys: /default_pg/0//",
        r"(?P<what>wait timeout after \d+ms, keys: /default_pg/0//(?P<group>\d+)//[a-z]+//0/(?P<member>\d+))",
        {
            "2.5+": "torch.distributed.DistStoreError: wait timeout after 6000ms, keys: /default_pg/0//2//cpu//0/2"
        },
    ),
    Pattern(
        torch.StoreTimeout,
        "wait timeout after ",
        r"(?P<what>wait timeout after \d+ms, keys: \S+)",
        {"2.5+": "torch.distributed.DistStoreError: wait timeout after 3000ms, keys: /missing"},
    ),
    Pattern(
        torch.StoreTimeout,
        "host not found: ",
        r"(?P<what>host not found: (?:Name or service not known|Temporary failure in name resolution|No address associated with hostname))",
        {"1.0-1.9": "ValueError: host not found: Name or service not known"},
    ),
    Pattern(
        torch.StoreTimeout,
        "RendezvousTimeoutError",
        r"(?P<what>RendezvousTimeoutError)",
        {"elastic": "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"},
    ),
    Pattern(
        torch.StoreTimeout,
        "RendezvousConnectionError",
        r"(?P<what>RendezvousConnectionError: The connection to the C10d store has failed)",
        {
            "elastic": "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details."
        },
    ),
    Pattern(
        torch.StoreLost,
        "recvValue",
        r"(?P<message>recvValue\w* failed on SocketImpl.*)$",
        {
            "2.5+": "[W1130 03:57:20.361682915 TCPStore.cpp:138] [c10d] recvValueWithTimeout failed on SocketImpl(fd=52, addr=[localhost]:42202, remote=[localhost]:45723): Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?"
        },
    ),
    Pattern(
        torch.PortInUse,
        "The server socket has failed to ",
        r"The server socket has failed to (?:listen on any local network address(?:\. port: |\. The server socket has failed to bind to \S+:)?|(?:bind to|listen on) \S+:)(?P<port>\d+)?",
        {
            "2.5+": "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29953, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
            "2.0+": "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
        },
    ),
    Pattern(
        torch.LoopbackFallback,
        "Unable to resolve hostname to a (local) address",
        r"Unable to resolve hostname to a \(local\) address",
        {
            "2.0+": "[W1130 04:15:21.016880797 ProcessGroupGloo.cpp:524] Warning: Unable to resolve hostname to a (local) address. Using the loopback address as fallback."
        },
    ),
    Pattern(
        torch.CudaError,
        "CUDA error: ",
        r"(?:AcceleratorError|RuntimeError|CUDA): ?CUDA error: (?P<reason>.*?)\s*$",
        {
            "2.9+": "torch.AcceleratorError: CUDA error: out of memory",
            "2.0+": "RuntimeError: CUDA error: an illegal memory access was encountered",
        },
    ),
    Pattern(
        torch.CudaError,
        "CUDA out of memory",
        r"OutOfMemoryError: CUDA (?P<reason>out of memory)",
        {
            "2.0+": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB"
        },
    ),
    Pattern(
        torch.NotDestroyed,
        "destroy_process_group() was not called",
        r"destroy_process_group\(\) was not called before program exit",
        {
            "2.6+": "[rank0]:[W1130 03:57:20.358905840 ProcessGroupNCCL.cpp:1575] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources."
        },
    ),
    Pattern(
        torch.GlooError,
        "Connection closed by peer ",
        r"(?P<message>Connection closed by peer (?P<peer>\S+?)\.?(?: .*)?)$",
        {
            "2.0+": "[../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:54178."
        },
        {"kind": "peer-closed"},
    ),
    Pattern(
        torch.GlooError,
        "/pair.cc:",
        r"pair\.cc:\d+\] (?P<message>connect (?P<peer>\[[^\]]*\]:\d+): (?:Connection refused|No route to host|Connection timed out|Network is unreachable))",
        {
            "1.0-2.3": "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [10.0.0.2]:13195: Connection refused"
        },
        {"kind": "connect"},
    ),
    Pattern(
        torch.GlooError,
        "connectFullMesh failed",
        r"(?P<message>Gloo connectFullMesh failed)",
        {
            "2.4+": "[rank1]:[E528 08:52:46.164295950 ProcessGroupGloo.cpp:145] Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error"
        },
        {"kind": "connect"},
    ),
    Pattern(
        torch.GlooError,
        "ms for ",
        r"(?P<message>Timed out waiting \d+ms for (?:recv|send) operation.*)$",
        {"2.0+": "unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation to complete"},
        {"kind": "timeout"},
    ),
    Pattern(
        torch.GlooError,
        "Received data size doesn't match expected size",
        r"(?P<message>op\.preamble\.length <= op\.nbytes\. .*)$",
        {
            "2.0+": "what():  [enforce fail at /gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4. Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?"
        },
        {"kind": "size-mismatch"},
    ),
    Pattern(
        torch.GlooError,
        "eset by peer",
        r"pair\.cc:\d+\] (?P<message>Read error (?P<peer>\[\S+): Connection reset by peer.*)$",
        {
            "2.0+": "[/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:5417: Connection reset by peer."
        },
        {"kind": "peer-closed"},
    ),
]
