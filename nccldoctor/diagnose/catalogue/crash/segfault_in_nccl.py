"""A process was ended by a fault in native code, with NCCL, RCCL or a plugin of theirs on the stack.

SIGSEGV and SIGABRT inside libnccl come from a plugin built for another version, two copies of the library in one
process, a communicator used after it was destroyed, memory corrupted elsewhere, or a bug of that version.
Not this: a fault whose stack names no NCCL library (that is CRASH01), and an abort by PyTorch's watchdog after a
time-out (HANG04).
"""

from collections.abc import Iterable

from nccldoctor.diagnose.diagnosis import Found, told_by
from nccldoctor.diagnose.words import lines, who
from nccldoctor.model.events.usage import FatalSignal, NativeFrame
from nccldoctor.model.finding import Confidence, Severity
from nccldoctor.model.job import Evidence, Job

code = "CRASH03"
name = "segfault-in-nccl"
severity = Severity.ERROR
needs = (Evidence.OUTPUT, Evidence.KERNEL)
explains = ("CRASH01", "NET10", "HANG01", "HANG02", "HANG04", "INIT01", "INIT03")
look_first = True
confirm = (
    "grep -E 'nccl|rccl' /proc/PID/maps | awk '{print $6}' | sort -u  # more than one libnccl, or a plugin of another release?",
    "ulimit -c unlimited; gdb -batch -ex 'thread apply all bt' python core  # a whole stack, for the report to the library's authors",
)
remedy = (
    "pip install -U nvidia-nccl-cu12  # then run again; costs a test run; report the stack with both versions if it stays",
    "export NCCL_NET_PLUGIN=none  # for one run only: if it passes, update the plugin; without it inter-host traffic costs most of its speed",
)

_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 11: "SIGSEGV"}
_NEAR = 60
"""Lines after the signal in which a stack that belongs to it is printed."""


def check(job: Job) -> Iterable[Found]:
    """One finding a fault whose own line or stack names the library."""
    frames = job.events(NativeFrame)
    for fault in job.events(FatalSignal):
        own = [
            f
            for f in frames
            if f.line.file == fault.line.file and 0 <= f.line.number - fault.line.number <= _NEAR
        ]
        library = fault.library or (own[0].library if own else None)
        if library is None or not ("nccl" in library or "rccl" in library):
            continue
        signal = _SIGNALS.get(fault.signal, f"signal {fault.signal}")
        function = next((f.function for f in own if f.function), None)
        where = f"{library} ({function})" if function else library
        process = f" (pid {fault.fallen_pid})" if fault.fallen_pid else ""
        yield told_by(
            job,
            [fault],
            f"{who(job, [fault], 'A process')}{process} died of {signal} in {where}",
            evidence=lines([fault, *own]),
            confidence=Confidence.HIGH,
        )


fires_on = {
    "kernel log": "[81234.1] python3[20931]: segfault at 8 ip 00007f3d5c1a2b10 sp 00007f3d2effc8e0 error 4 in libnccl.so.2.21.5[7f3d5c000000+8a00000]",
    "Open MPI": (
        "[gpu-1:20931] *** Process received signal ***\n"
        "[gpu-1:20931] Signal: Segmentation fault (11)\n"
        "[gpu-1:20931] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x42520)[0x7f3d5e042520]\n"
        "[gpu-1:20931] [ 1] /usr/lib/libnccl.so.2(ncclGroupEnd+0x1f)[0x7f3d5c1a2b10]\n"
    ),
    "UCX": (
        "[gpu-1:288505:0:296459] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x48)\n"
        "==== backtrace (tid: 296459) ====\n"
        " 0  /usr/lib/libucs.so.0(ucs_handle_error+0x2d4) [0x7fedc925c274]\n"
        " 3  /opt/nccl/lib/libnccl.so(+0x120057) [0x7ff1c18c1057]\n"
    ),
    "RCCL": "[81234.1] python3[20931]: segfault at 8 ip 00007f3d5c1a2b10 sp 00007f3d2effc8e0 error 4 in librccl.so.1.0[7f3d5c000000+8a00000]",
}
silent_on = {
    "a fault elsewhere": "[81234.1] python3[20931]: segfault at 8 ip 00007f3d5c1a2b10 sp 00007f3d2effc8e0 error 4 in libc10_cuda.so[7f3d5c000000+8a000]",
    "frames without a fault": "[gpu-1:20931] [ 3] /usr/lib/libnccl.so.2(ncclGroupEnd+0x1f)[0x7f3d5c1a2b10]",
}
