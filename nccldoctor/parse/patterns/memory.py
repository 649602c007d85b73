"""Shared memory, host memory, buffers and their registration."""

from nccldoctor.model.events import machine, torch, trouble
from nccldoctor.parse.pattern import Pattern

_ERROR = r"(?:, error:? ?(?P<reason>[^(\n]*?)(?: \(\d+\))?)?\s*$"

NCCL = [
    Pattern(
        trouble.SharedMemoryFailed,
        "failed to extend ",
        r"failed to extend (?P<segment>\S+) to (?P<size_bytes>\d+) bytes" + _ERROR,
        {
            "2.20+": "Error: failed to extend /dev/shm/nccl-Y3cmX5 to 33030532 bytes, error: No space left on device (28)",
            "2.14-2.19": "Error: failed to extend /dev/shm/nccl-Y3cmX5 to 9637892 bytes",
        },
    ),
    Pattern(
        trouble.SharedMemoryFailed,
        "attaching to shared memory segment ",
        r"Error while attaching to shared memory segment (?P<segment>\S+) \(size (?P<size_bytes>\d+)\)"
        + _ERROR,
        {
            "2.20+": "Error while attaching to shared memory segment /dev/shm/nccl-Y3cmX5 (size 9637888), error: No such file or directory (2)",
            "2.14-2.19": "Error while attaching to shared memory segment /dev/shm/nccl-Y3cmX5 (size 9637888)",
        },
        {"attaching": True},
    ),
    Pattern(
        trouble.SharedMemoryFailed,
        "creating shared memory segment ",
        r"Error while creating shared memory segment (?P<segment>\S+) \(size (?P<size_bytes>\d+)\)"
        + _ERROR,
        {
            "2.20+": "Error while creating shared memory segment /dev/shm/nccl-Y3cmX5 (size 9637888), error: No space left on device (28)",
            "2.14-2.19": "Error while creating shared memory segment /dev/shm/nccl-Y3cmX5 (size 9637888)",
        },
    ),
    Pattern(
        trouble.SharedMemoryFailed,
        "Could not map ",
        r"Error: Could not map (?P<segment>\S+) size (?P<size_bytes>\d+)" + _ERROR,
        {
            "2.20+": "Error: Could not map /dev/shm/nccl-Y3cmX5 size 9637892, error: Cannot allocate memory (12)"
        },
    ),
    Pattern(
        trouble.SharedMemoryFailed,
        "failed to create shared memory file",
        r"failed to create shared memory file (?P<segment>\S+)" + _ERROR,
        {"2.14+": "failed to create shared memory file /dev/shm/nccl-Y3cmX5"},
    ),
    Pattern(
        trouble.SharedMemoryFailed,
        "shm_open",
        r"Call to (?:shm_open|posix_fallocate) failed ?: (?P<reason>.*?)\s*$",
        {
            "2.4-2.13": "Call to posix_fallocate failed : No space left on device",
            "2.4-2.13 open": "Call to shm_open failed : No such file or directory",
        },
    ),
    Pattern(
        trouble.SharedMemoryFailed,
        "posix_fallocate",
        r"Call to posix_fallocate failed ?: (?P<reason>.*?)\s*$",
        {"2.4-2.13": "Call to posix_fallocate failed : No space left on device"},
    ),
    Pattern(
        trouble.AllocationFailed,
        "Failed to malloc ",
        r"Failed to malloc (?P<size_bytes>\d+) bytes",
        {"2.4+": "Failed to malloc 1048576 bytes"},
        {"memory": "host"},
    ),
    Pattern(
        trouble.AllocationFailed,
        "returned null",
        r"Unrecoverable error detected: malloc\(size=(?P<size_bytes>\d+)\) returned null",
        {"2.14+": "Unrecoverable error detected: malloc(size=4194304) returned null."},
        {"memory": "host"},
    ),
    Pattern(
        machine.RegistrationFailed,
        " register ",
        r"rank (?P<reporting_rank>\d+) failed to (?P<how>NET|IPC|NVLS) register",
        {
            "2.24+": "rank 3 failed to NET register userbuff 0x7f2a00000000 buffSize 16777216",
            "2.26+": "rank 0 failed to NVLS register sendbuff 0x7f2a00000000 sendbuffSize 1048576",
        },
    ),
]

TEXT = [
    Pattern(
        trouble.SharedMemoryFailed,
        "insufficient shared memory",
        r"(?P<reason>bus error|insufficient shared memory)",
        {
            "PyTorch": "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)."
        },
        {"segment": "/dev/shm"},
    ),
    Pattern(
        trouble.SharedMemoryFailed,
        "unable to write to file </torch_",
        r"unable to write to file <(?P<segment>/torch_\w+)>: (?P<reason>[^(\n]*?)(?: \(\d+\))?\s*$",
        {
            "PyTorch": "RuntimeError: unable to write to file </torch_4117_1286410924_0>: No space left on device (28)"
        },
    ),
    Pattern(
        trouble.SharedMemoryFailed,
        "shared memory object </torch_",
        r"shared memory object <(?P<segment>/torch_\w+)> in read-write mode: (?P<reason>[^(\n]*No space[^(\n]*?)(?: \(\d+\))?\s*$",
        {
            "PyTorch": "RuntimeError: unable to open shared memory object </torch_4117_1> in read-write mode: No space left on device (28)"
        },
    ),
    Pattern(
        trouble.AllocationFailed,
        "DefaultCPUAllocator",
        r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory): you tried to allocate (?P<size_bytes>\d+) bytes",
        {
            "PyTorch": "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 274877906944 bytes. Error code 12 (Cannot allocate memory)"
        },
        {"memory": "host"},
    ),
    Pattern(
        torch.WorkerLost,
        "A worker died or was killed",
        r"A worker died or was killed while executing .{0,600}?Worker IP address: (?P<lost_host>[\w.:\-]+)"
        r".{0,80}? Worker PID: (?P<lost_pid>\d+)(?: Worker exit type: (?P<how>\w+))?",
        {
            "Ray": "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the logs for the dead worker. RayTask ID: ff Worker ID: 5e Node ID: 75 Worker IP address: 10.0.0.1 Worker port: 10230 Worker PID: 2072 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file."
        },
    ),
    Pattern(
        torch.WorkerLost,
        "its worker process has died",
        r"actor (?:is dead|died).{0,60}? because its worker process has died\..{0,400}?Worker exit type: (?P<how>\w+)",
        {
            "Ray": "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task. The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file."
        },
    ),
    Pattern(
        machine.OomKilled,
        "Killed process ",
        r"(?:Out of memory|Memory cgroup out of memory): Killed process (?P<killed_pid>\d+) \((?P<process_name>[^)]*)\)",
        {
            "kernel": "[1209831.114] Out of memory: Killed process 41872 (python3) total-vm:81920000kB, anon-rss:64000000kB",
            "cgroup": "Memory cgroup out of memory: Killed process 41872 (python) total-vm:81920000kB",
        },
    ),
    Pattern(
        machine.OomKilled,
        "oom",
        r"(?:slurmstepd|srun).{0,60}?(?:oom_kill event|oom-kill event|OOM Killed|Out Of Memory)",
        {
            "Slurm": "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.",
            "Slurm 22": "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=4711.0. Some of your processes may have been killed by the cgroup out-of-memory handler.",
        },
    ),
    Pattern(
        machine.OomKilled,
        ": Out Of Memory",
        r"^srun: error: [\w.\-]+: tasks? [\d,\-]+: Out Of Memory",
        {"Slurm, the task": "srun: error: gpu-1: task 3: Out Of Memory"},
    ),
    Pattern(
        machine.OomKilled,
        "OOMKilled",
        r"(?:[Rr]eason:?\s+\"?OOMKilled|\bOOMKilled\b\"?: ?true)",
        {"kubectl": "      Reason:       OOMKilled", "docker": '        "OOMKilled": true,'},
    ),
]
