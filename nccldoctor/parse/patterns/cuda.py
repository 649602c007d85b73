"""CUDA, the driver and the kernel: errors, asserts, GPUs that cannot be used, faults in native code."""

from nccldoctor.model.events import platform, torch, usage
from nccldoctor.parse.pattern import Pattern

_LIBRARY = r"lib(?:nccl|rccl)[\w\-]{0,60}\.so[\w.]{0,40}"

NCCL = [
    Pattern(
        platform.DriverTooOld,
        "The installed CUDA driver is older",
        r"^(?P<reason>The installed CUDA driver is older than the minimum version \((?P<driver>\w+)\).*)$",
        {
            "2.11+": "The installed CUDA driver is older than the minimum version (R465) required for NCCL's CUDA Graphs support"
        },
    ),
    Pattern(
        platform.DriverTooOld,
        "PFN functions not found",
        r"^(?P<reason>CUDA some PFN functions not found in the library)",
        {"2.14+": "CUDA some PFN functions not found in the library"},
    ),
    Pattern(
        platform.GpuUnsupported,
        "ncclMaxSharedMem ",
        r"^(?P<reason>cudaArch \d+ ncclMaxSharedMem \d+ exceeds device/fn maxSharedMem \d+)",
        {"2.18+": "cudaArch 1200 ncclMaxSharedMem 172464 exceeds device/fn maxSharedMem 101376"},
    ),
]

TEXT = [
    Pattern(
        torch.CudaError,
        "CUDA error: ",
        r"(?:\[(?:PG .{0,200}? )?Rank (?P<group_rank>\d+)\] .{0,60}?)?"
        r"(?:terminated with exception|what\(\)|Exception|[Ee]rror): ? ?CUDA error: (?P<reason>.*\S)",
        {
            "2.1+ watchdog": "[rank1]:[E1130 04:15:21.016 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) Rank 1] Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered",
            "terminate": "  what():  CUDA error: device-side assert triggered",
        },
    ),
    Pattern(
        torch.CudaError,
        " failure ",
        r"(?:Test CUDA|C[uU][dD][aA]) failure \S+:\d+ '(?P<reason>[^']*)'",
        {
            "nccl-tests": "gpu-1: Test CUDA failure common.cu:1045 'CUDA driver version is insufficient for CUDA runtime version'",
            "nccl-tests 2018": "Cuda failure common.cu:891 'CUDA driver version is insufficient for CUDA runtime version'",
        },
    ),
    Pattern(
        usage.DeviceAssert,
        "Assertion `",
        r"\.cuh?:\d+: (?P<kernel>[^:]+(?:::[^:]+)*): block: \[[\d,]+\], thread: \[[\d,]+\] Assertion `(?P<condition>[^`]*)` failed",
        {
            "1.0+": "../aten/src/ATen/native/cuda/Indexing.cu:1290: indexSelectLargeIndex: block: [5,0,0], thread: [32,0,0] Assertion `srcIndex < srcSelectDimSize` failed."
        },
    ),
    Pattern(
        torch.CudaError,
        "Error 80",
        r"Error 80\d: (?P<reason>.*\S)",
        {
            "cudaGetDeviceCount": "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized"
        },
    ),
    Pattern(
        torch.CudaError,
        " GPUs ",
        r"(?P<reason>No (?:CUDA|HIP) GPUs are available)",
        {"1.7+": "RuntimeError: No CUDA GPUs are available"},
    ),
    Pattern(
        torch.CudaError,
        "no GPUs found!",
        r"(?P<reason>ProcessGroupNCCL is only supported with GPUs, no GPUs found!)",
        {"1.8+": "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!"},
    ),
    Pattern(
        torch.CudaError,
        "Found no NVIDIA driver on your system",
        r"(?P<reason>Found no NVIDIA driver on your system)",
        {
            "0.4+": "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver"
        },
    ),
    Pattern(
        torch.CudaError,
        "re-initialize CUDA in forked subprocess",
        r"(?P<reason>Cannot re-initialize CUDA in forked subprocess)",
        {
            "1.0+": "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"
        },
    ),
    Pattern(
        platform.DriverTooOld,
        "driver on your system is too old",
        r"(?P<reason>The NVIDIA driver on your system is too old \(found version (?P<driver>\d+)\))",
        {
            "1.0+": "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver"
        },
    ),
    Pattern(
        platform.GpuUnsupported,
        " is not compatible with the current PyTorch installation",
        r"(?:^|\s)(?P<gpu>\S.{0,60}?) with CUDA capability (?P<reason>sm_\d+ is not compatible with the current PyTorch installation)",
        {
            "1.8+": "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation."
        },
    ),
    Pattern(
        usage.SymbolMissing,
        "undefined symbol: nccl",
        r"(?:(?P<library>[\w.+-]{1,120}): )?undefined symbol: (?P<symbol>nccl\w+)",
        {
            "glibc": "ImportError: /opt/py/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister"
        },
    ),
    Pattern(
        usage.FatalSignal,
        " segfault at ",
        r"\[(?P<fallen_pid>\d+)\]: segfault at .{0,200}? error \d+ in (?P<library>[^\s\[]+)",
        {
            "kernel": "[81234.1] python3[20931]: segfault at 8 ip 00007f3d5c1a2b10 sp 00007f3d2effc8e0 error 4 in libnccl.so.2.21.5[7f3d5c000000+8a00000]"
        },
        {"signal": 11},
    ),
    Pattern(
        usage.FatalSignal,
        "Signal: ",
        r"(?:^|\[(?P<fallen_host>[\w.\-]{1,80}):(?P<fallen_pid>\d{1,10})\] |\] )Signal: (?:Segmentation fault|Aborted|Bus error|Floating point exception) \((?P<signal>\d+)\)",
        {"Open MPI": "[gpu-1:20931] Signal: Segmentation fault (11)"},
    ),
    Pattern(
        usage.FatalSignal,
        "Caught signal ",
        r"(?:\[(?P<fallen_host>[\w.\-]+):(?P<fallen_pid>\d+):\d+:\d+\] )?Caught signal (?P<signal>\d+) \(",
        {
            "UCX": "[gpu-1:20931:0:20931] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x8)"
        },
    ),
    Pattern(
        usage.FatalSignal,
        "Fatal Python error: ",
        r"^Fatal Python error: Segmentation fault",
        {"faulthandler": "Fatal Python error: Segmentation fault"},
        {"signal": 11},
    ),
    Pattern(
        usage.FatalSignal,
        "*** SIG",
        r"\*\*\* SIG(?:SEGV|BUS) \(@0x[0-9a-f]+\) received by PID (?P<fallen_pid>\d+)",
        {
            "glog": "*** SIGSEGV (@0x8) received by PID 20931 (TID 0x7f3d2f) from PID 8; stack trace: ***"
        },
        {"signal": 11},
    ),
    Pattern(
        usage.NativeFrame,
        "ccl",
        rf"(?:^|\s)\[ ?\d+\] \S*?(?P<library>{_LIBRARY})\((?P<function>[^+)]*)",
        {
            "no symbols, stamped": "2026-08-31 12:27:50 [gpu-1:00956] [ 4] /usr/local/nccl/lib/libnccl.so.2(+0xbd72c)[0x7d1d0c8f372c]",
            "Open MPI": "[gpu-1:20931] [ 3] /usr/lib/libnccl.so.2(ncclGroupEnd+0x1f)[0x7f3d5c1a2b10]",
        },
    ),
    Pattern(
        usage.NativeFrame,
        "ccl",
        rf"^ *\d+ +\S*?(?P<library>{_LIBRARY})\((?P<function>[^+)]*)\S*\) \[0x",
        {"UCX": " 3  /opt/nccl/lib/libnccl.so(+0x120057) [0x7ff1c18c1057]"},
    ),
    Pattern(
        usage.NativeFrame,
        " nccl",
        r"^ *\d+ +0x[0-9a-f]+ (?P<function>nccl\w+[^(]{0,80})\(\) ",
        {
            "UCX, with sources": "25 0x000000000005f4a2 ncclCommInitRankFunc()  /home/user/nccl/src/init.cc:890"
        },
        {"library": "libnccl.so"},
    ),
    Pattern(
        usage.NativeFrame,
        "ccl",
        rf"^ *#?\d+ +0x[0-9a-f]{{1,16}} (?:in )?(?P<function>[\w:~<>]{{1,200}}) ?\([^/\n]{{0,200}}/\S{{0,300}}?(?P<library>{_LIBRARY})",
        {
            "gdb": "#4  0x00007f3d5c1a2b10 in ncclGroupEndInternal () from /usr/lib/libnccl.so.2",
        },
    ),
    Pattern(
        usage.NativeFrame,
        "ccl",
        rf"^ *@ +0x[0-9a-f]{{1,16}} \(?(?P<function>[\w:~<>]{{0,200}})[^/\n]{{0,200}}/\S{{0,300}}?(?P<library>{_LIBRARY})",
        {"glog": "    @     0x7f3d5c1a2b10 ncclGroupEnd (/usr/lib/libnccl.so.2+0x5a2b10)"},
    ),
    Pattern(
        platform.IommuFault,
        "DMAR: [DMA ",
        r"DMAR: \[DMA \w+(?: NO_PASID)?\] Request device \[(?P<device>[0-9a-f:.]+)\]",
        {
            "Intel": "[ 1021.3] DMAR: [DMA Read NO_PASID] Request device [c1:00.0] fault addr 0x38ffc0000000 [fault reason 0x06] PTE Read access is not set"
        },
    ),
    Pattern(
        platform.IommuFault,
        "IO_PAGE_FAULT",
        r"AMD-Vi: Event logged \[IO_PAGE_FAULT (?:device=)?(?P<device>[0-9a-f:.]+)",
        {
            "AMD": "nvidia 0000:c1:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT device=c1:00.0 domain=0x002c address=0x38ffc0000000 flags=0x0020]"
        },
    ),
    Pattern(
        platform.Partition,
        "MIG ",
        r"^\s+(?P<kind>MIG) (?P<name>\d+\w*\.[\w.+]+)\s+Device\s+\d+:",
        {"nvidia-smi -L": "  MIG 3g.40gb     Device  0: (UUID: MIG-0f3a6c3e-1)"},
    ),
]
