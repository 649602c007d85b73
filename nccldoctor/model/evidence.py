"""The kinds of evidence that a diagnosis can need: how each is called, and how to get it."""

from collections.abc import Mapping
from enum import Enum


class Evidence(str, Enum):
    """One kind; `SAID` has it in words, `TURN_ON` how to get it."""

    NCCL_LOG = "nccl-log"  # any NCCL or RCCL record
    INFO_LOG = "info-log"  # records of level INFO: set-up, channels
    ENVIRONMENT = "environment"  # which variables NCCL read
    NETWORK = "network"  # which network and devices
    GRAPH = "graph"  # topology, paths, graphs
    TUNING = "tuning"
    CALLS = "calls"  # one line a collective
    RECORDER = "flight-recorder"
    WATCHDOG = "watchdog"  # PyTorch's own lines on its process groups
    RAS = "ras"
    STACKS = "stacks"
    OUTPUT = "output"  # the ranks' stdout and stderr
    LAUNCHER = "launcher"  # how processes ended
    KERNEL = "kernel"
    BANDWIDTH = "bandwidth"
    HOST_STATE = "host-state"  # NVML, nvidia-smi


TURN_ON: Mapping[Evidence, str] = {
    Evidence.NCCL_LOG: "export NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/tmp/nccl_debug_%h_%p.log",
    Evidence.INFO_LOG: "export NCCL_DEBUG=INFO",
    Evidence.ENVIRONMENT: "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,BOOTSTRAP,NET,GRAPH,TUNING",
    Evidence.NETWORK: "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,BOOTSTRAP,NET,GRAPH,TUNING",
    Evidence.GRAPH: "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,BOOTSTRAP,NET,GRAPH,TUNING",
    Evidence.TUNING: "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,BOOTSTRAP,NET,GRAPH,TUNING",
    Evidence.CALLS: "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,COLL  # or: nccldoctor run --trace-calls …",
    Evidence.RECORDER: "export TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1  # or: nccldoctor run …",
    Evidence.WATCHDOG: "give nccldoctor the ranks' stdout and stderr (torchrun --redirects 3 --log-dir logs)",
    Evidence.RAS: "echo verbose status | nc localhost 28028 > ras.txt  # while it hangs, on one host (NCCL 2.24 or later)",
    Evidence.STACKS: "py-spy dump --pid PID > stack.txt  # while it hangs, for each rank; or: nccldoctor run …",
    Evidence.OUTPUT: "give nccldoctor the ranks' stdout and stderr (torchrun --redirects 3 --log-dir logs)",
    Evidence.LAUNCHER: "give nccldoctor the launcher's own output too",
    Evidence.KERNEL: "dmesg -T > dmesg.txt  # on each host",
    Evidence.BANDWIDTH: "nccldoctor probe --quick  # or give nccldoctor the output of nccl-tests",
    Evidence.HOST_STATE: "nccldoctor topo --json topo.json  # or: nvidia-smi -q > smi.txt; nvidia-smi topo -m > topo.txt",
}

SAID: Mapping[Evidence, str] = {
    Evidence.NCCL_LOG: "NCCL log",
    Evidence.INFO_LOG: "NCCL log of level INFO",
    Evidence.ENVIRONMENT: "variables",
    Evidence.NETWORK: "network lines",
    Evidence.GRAPH: "topology lines",
    Evidence.TUNING: "tuning lines",
    Evidence.CALLS: "collective calls in the log",
    Evidence.RECORDER: "flight-recorder dump",
    Evidence.WATCHDOG: "watchdog lines",
    Evidence.RAS: "RAS answer",
    Evidence.STACKS: "stacks",
    Evidence.OUTPUT: "output of the ranks",
    Evidence.LAUNCHER: "output of the launcher",
    Evidence.KERNEL: "kernel log",
    Evidence.BANDWIDTH: "measured bandwidth",
    Evidence.HOST_STATE: "nvidia-smi or NVML facts",
}
"""Each kind in words, to follow `no`."""
