"""InfiniBand completion status: what each number means and what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Status:
    """One ibv_wc_status. `remedy` is most useful first."""

    name: str
    meaning: str
    remedy: tuple[str, ...] = ()


FLUSH = 5
"""The queue pair was already in error: a consequence of another status or of the peer's end."""
LOCAL_PROTECTION = 4

_COUNTERS = "for p in /sys/class/infiniband/*/ports/*/; do grep -H . $p/state $p/counters/link_downed $p/counters/symbol_error; done  # on both hosts"
_PEER = "dmesg -T | tail -100  # on the peer: did its process, its GPU or its HCA die first?"
_ACS = "cat /proc/cmdline; lspci -vvv | grep -i acsctl  # GPUDirect wants iommu=pt or off, and ACS off on PCIe bridges"
_GDR = "export NCCL_NET_GDR_LEVEL=LOC  # for one run only: shows whether GPUDirect is at fault; costs a copy of every byte through the host"

STATUS: Mapping[int, Status] = {
    0: Status("SUCCESS", "no error"),
    1: Status(
        "LOC_LEN_ERR",
        "the local buffer is too small: ranks disagree on the size of a transfer",
        ("env | grep -E 'NCCL_(ALGO|PROTO|BUFFSIZE)'  # the same on every rank?",),
    ),
    2: Status(
        "LOC_QP_OP_ERR",
        "a bad work request: driver or firmware",
        ("ibv_devinfo | grep fw_ver  # same firmware and driver on all hosts",),
    ),
    3: Status("LOC_EEC_OP_ERR", "not used by NCCL"),
    4: Status(
        "LOC_PROT_ERR",
        "the local memory key does not cover the buffer: GPUDirect through an IOMMU or ACS, a freed buffer, or a GPU reset",
        (_ACS, "lsmod | grep nvidia_peermem  # or a kernel with DMA-BUF", _GDR),
    ),
    5: Status("WR_FLUSH_ERR", "the connection was already broken: a consequence", (_PEER,)),
    6: Status("MW_BIND_ERR", "not used by NCCL"),
    7: Status("BAD_RESP_ERR", "an unexpected answer: fabric or firmware", (_COUNTERS,)),
    8: Status("LOC_ACCESS_ERR", "no local right to the buffer", (_ACS,)),
    9: Status(
        "REM_INV_REQ_ERR",
        "the peer refused the request: sizes or states disagree",
        ("env | grep -E 'NCCL_(ALGO|PROTO|BUFFSIZE)'  # the same on every rank?",),
    ),
    10: Status(
        "REM_ACCESS_ERR",
        "the peer's memory key is not valid: it freed its memory or aborted, or its IOMMU or ACS blocks GPUDirect",
        (_PEER, _ACS, _GDR),
    ),
    11: Status("REM_OP_ERR", "the peer could not finish: PCIe or memory error there", (_PEER,)),
    12: Status(
        "RETRY_EXC_ERR",
        "no acknowledgement after all retries: the peer died, a link or switch is down, or (RoCE) GID, VLAN, route or lossless settings are wrong",
        (
            _PEER,
            _COUNTERS,
            "show_gids; ib_write_bw -d mlx5_0 -x GID_INDEX PEER  # RoCE: does this pair of ports talk at all?",
            "export NCCL_IB_TIMEOUT=22  # rides over short congestion or a flap; costs minutes until a dead peer is noticed",
        ),
    ),
    13: Status(
        "RNR_RETRY_EXC_ERR",
        "the receiver was not ready for too long: its NCCL proxy thread stood still",
        ("top -H -p PID  # on the peer: is its CPU starved, or the process stopped?", _PEER),
    ),
    14: Status("LOC_RDD_VIOL_ERR", "not used by NCCL"),
    15: Status("REM_INV_RD_REQ_ERR", "not used by NCCL"),
    16: Status("REM_ABORT_ERR", "the peer aborted", (_PEER,)),
    17: Status("INV_EECN_ERR", "not used by NCCL"),
    18: Status("INV_EEC_STATE_ERR", "not used by NCCL"),
    19: Status(
        "FATAL_ERR", "the device failed", ("dmesg -T | grep -i mlx5  # reset or replace it",)
    ),
    20: Status("RESP_TIMEOUT_ERR", "no response in time", (_PEER, _COUNTERS)),
    21: Status("GENERAL_ERR", "another transport error", (_PEER, _COUNTERS)),
    22: Status("TM_ERR", "tag matching"),
}
"""Source: rdma-core, verbs.h, enum ibv_wc_status; causes as NCCL issues report them."""

VENDOR: Mapping[int, str] = {
    129: "transport retries exceeded",
    136: "remote access",
    137: "remote access",
    244: "flush",
    245: "flush",
    249: "flush",
    81: "local protection",
    86: "local protection",
}
"""vendor err of mlx5 as seen beside the status; private to the vendor, so reported and never decided on."""


def status(number: int) -> Status:
    """The status of this number; an unknown one says so."""
    return STATUS.get(number, Status(f"status {number}", "a status that rdma-core does not list"))
