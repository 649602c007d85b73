"""Records runs on this machine's GPUs: `python benchmarks/record.py OUT [--only NAME,…] [--jobs 4]`.

Each run is a folder of what NCCL and PyTorch left behind, as of four hosts of two ranks (host names and NCCL_HOSTID are
made up, the GPUs are shared); `scenario.json` says what was done. Needs root (`unshare`) and Linux.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

WORKER = Path(__file__).with_name("record_worker.py")
SECONDS = 42
FULL = "INIT,ENV,NET,GRAPH,COLL"
INFO = "INIT,ENV,NET,GRAPH"


@dataclass(frozen=True)
class Scenario:
    """One run. `log`: NCCL_DEBUG_SUBSYS, "warn" (NCCL_DEBUG=WARN) or "" (nothing set). `only_on`: variables of one rank or host."""

    name: str
    mode: str
    odd: int = -1
    log: str = FULL
    hosts: int = 4
    newer: bool = False
    recorder: bool = True
    seconds: int = SECONDS
    absent: int = -1
    shell: str = ""
    launcher: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    only_on: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


SCENARIOS = (
    Scenario("h-mesh", "healthy_mesh"),
    Scenario("h-mesh-newer", "healthy_mesh", newer=True),
    Scenario("h-ddp", "healthy_ddp", log=INFO),
    Scenario("h-uneven-groups", "healthy_uneven_groups"),
    Scenario("h-many-calls", "healthy_many_calls"),
    Scenario("h-many-calls-newer", "healthy_many_calls", newer=True, log=INFO),
    Scenario("h-slow", "healthy_slow", odd=3),
    Scenario("h-plugin", "plain", environment={"NCCL_NET_PLUGIN": "nowhere"}, log=INFO),
    Scenario("h-out-only", "healthy_mesh", log="", recorder=False),
    Scenario("skip-data", "skip_data", odd=2),
    Scenario("skip-data-newer", "skip_data", odd=5, newer=True),
    Scenario("skip-data-recorder", "skip_data", odd=4, log="warn"),
    Scenario("pipeline-stuck", "pipeline_stuck", odd=4),
    Scenario("pipeline-stuck-info", "pipeline_stuck", odd=3, log=INFO),
    Scenario("wrong-type", "wrong_type", odd=3),
    Scenario("wrong-type-recorder", "wrong_type", odd=6, log=INFO),
    Scenario("uneven-exchange", "uneven_exchange", odd=1),
    Scenario("other-root", "other_root", odd=5),
    Scenario("stopped", "stopped", odd=4),
    Scenario("stopped-newer", "stopped", odd=1, newer=True, log=INFO),
    Scenario("device-assert", "device_assert", odd=6),
    Scenario("device-assert-out", "device_assert", odd=2, log="", recorder=False),
    Scenario("out-of-memory", "out_of_memory", odd=1),
    Scenario("throws", "throws", odd=3),
    Scenario("throws-out", "throws", odd=5, log="", recorder=False),
    Scenario("leaves-early", "leaves_early", odd=7),
    Scenario("killed-two", "killed", odd=1, log=INFO),
    Scenario("killed-two-newer", "killed", odd=2, newer=True),
    Scenario("logs-alone", "logs_alone", odd=0),
    Scenario("last-barrier", "last_barrier", odd=0),
    Scenario("group-on-some", "group_on_some", odd=6),
    Scenario("evaluates-long", "evaluates_long", odd=0, log="warn"),
    Scenario("loader-dies", "loader_dies", odd=2),
    Scenario("preempted", "preempted", seconds=30),
    Scenario("absent", "plain", absent=5),
    Scenario("absent-newer", "plain", absent=2, newer=True, log=INFO),
    Scenario("two-versions", "plain", log=INFO, only_on={"gpu-d": {"NEWER": "1"}}),
    Scenario("odd-interface", "plain", log=INFO, only_on={"gpu-c": {"NCCL_SOCKET_IFNAME": "ib9"}}),
    Scenario("odd-algorithm", "plain", only_on={"gpu-c": {"NCCL_ALGO": "Tree"}}),
    Scenario("odd-buffer", "plain", log=INFO, only_on={"gpu-b": {"NCCL_BUFFSIZE": "65536"}}),
    Scenario("no-device", "plain", only_on={"3": {"CUDA_VISIBLE_DEVICES": "0"}}),
    Scenario("few-files", "plain", log=INFO, only_on={"2": {"FILES": "48"}}),
    Scenario(
        "small-shm",
        "plain",
        hosts=1,
        log=INFO,
        shell="mount -t tmpfs -o size=2M tmpfs /dev/shm && ",
        environment={"NCCL_P2P_DISABLE": "1"},
    ),
    Scenario("port-taken", "plain", log=INFO, seconds=40),
    Scenario("sharded", "sharded", odd=3),
    Scenario("sharded-newer", "sharded", odd=6, log=INFO, newer=True),
    Scenario("ring-missing", "ring_missing", odd=5),
    Scenario("ring-missing-info", "ring_missing", odd=2, log=INFO),
    Scenario("other-order", "other_order", odd=4),
    Scenario("monitored", "monitored", odd=4, log="warn"),
    Scenario("holds-the-lock", "holds_the_lock", odd=3, log=INFO),
    Scenario("blocking-wait", "stopped", odd=6, environment={"TORCH_NCCL_BLOCKING_WAIT": "1"}),
    Scenario("desync", "evaluates_long", odd=1, environment={"TORCH_NCCL_DESYNC_DEBUG": "1"}),
    Scenario(
        "detail", "wrong_type", odd=2, log="", environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    ),
    Scenario("h-detail", "healthy_ddp", environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}),
    Scenario("h-all", "healthy_many_calls", log="ALL", newer=True),
    Scenario("h-live", "live", seconds=26),
    Scenario("h-live-newer", "live", seconds=24, newer=True),
    Scenario("no-master", "plain", log=INFO, only_on={"gpu-b": {"MASTER_ADDR": "node-0.invalid"}}),
    Scenario("torchrun-throws", "throws", odd=1, hosts=1, launcher="torchrun"),
    Scenario("torchrun-killed", "leaves_killed", odd=1, hosts=1, launcher="torchrun"),
    Scenario("h-torchrun", "healthy_many_calls", hosts=1, launcher="torchrun"),
)


def record(scenario: Scenario, out: Path, newer: str) -> str:
    """Runs one scenario to its end, or to its time, and says how it ended."""
    folder = out / scenario.name
    folder.mkdir(parents=True)
    port, ras = _port(), _port()
    taken = None
    if scenario.name == "port-taken":
        taken = subprocess.Popen(
            [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(1)
    world = scenario.hosts * 2
    ranks: dict[int, subprocess.Popen[bytes]] = {}
    began = time.time()
    for rank in range(1 if scenario.launcher else world):
        if rank != scenario.absent:
            ranks[rank] = _start(scenario, rank, world, folder, port, ras, newer)
    asked = False
    while time.time() - began < scenario.seconds:
        if all(process.poll() is not None for process in ranks.values()):
            break
        if not asked and time.time() - began > 18:
            asked = True
            _ask_ras(ras, folder)
            if scenario.mode == "preempted":
                for process in ranks.values():
                    os.killpg(process.pid, signal.SIGTERM)
        time.sleep(0.2)
    for process in ranks.values():
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    codes = {rank: process.wait() for rank, process in ranks.items()}
    if taken is not None:
        taken.kill()
    told = {**asdict(scenario), "seconds": round(time.time() - began, 1), "exit_codes": codes}
    (folder / "scenario.json").write_text(json.dumps(told, indent=1))
    for log in folder.glob("nccl_debug_*"):
        if log.stat().st_size > 400_000:
            log.write_bytes(log.read_bytes()[:400_000])
    return f"{scenario.name}: {told['seconds']} s, {sorted(set(codes.values()))}"


def _start(
    scenario: Scenario, rank: int, world: int, folder: Path, port: int, ras: int, newer: str
) -> "subprocess.Popen[bytes]":
    host = f"gpu-{'abcd'[rank // 2 % scenario.hosts] if scenario.hosts > 1 else 'a'}"
    local = rank % 2 if scenario.hosts > 1 else rank
    own = {**scenario.only_on.get(host, {}), **scenario.only_on.get(str(rank), {})}
    files = own.pop("FILES", "")
    environment = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(local),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "NCCL_RAS_ADDR": f"127.0.0.1:{ras}",
        **scenario.environment,
    }
    if scenario.hosts > 1:
        environment.update(
            {"NCCL_HOSTID": host, "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}
        )
    if scenario.log == "warn":
        environment["NCCL_DEBUG"] = "WARN"
    elif scenario.log:
        environment.update({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": scenario.log})
        environment["NCCL_DEBUG_FILE"] = str(folder / "nccl_debug_%h_%p.log")
    if scenario.recorder:
        environment.update(
            {
                "TORCH_FR_BUFFER_SIZE": "2000",
                "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
                "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
                "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(folder / "fr_rank_"),
                "TORCH_FR_DUMP_TEMP_FILE": str(folder / "fr_rank_"),
            }
        )
    environment.update(own)
    if scenario.newer or environment.pop("NEWER", ""):
        environment["LD_PRELOAD"] = newer
    limit = f"ulimit -n {files}; " if files else ""
    run = sys.executable
    if scenario.launcher:
        run += f" -m torch.distributed.run --nproc-per-node {world} --master-port {port}"
    command = f"hostname {host}; {scenario.shell}{limit}exec {run} {WORKER} {scenario.mode} {scenario.odd}"
    spaces = "-um" if scenario.shell else "-u"
    with (folder / f"rank{rank}.out").open("wb") as output:
        return subprocess.Popen(
            ["unshare", spaces, "sh", "-c", command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _ask_ras(port: int, folder: Path) -> None:
    try:
        with socket.create_connection(("127.0.0.1", port), 3) as line:
            line.settimeout(8)
            line.sendall(b"verbose status\n")
            parts = []
            while data := line.recv(65536):
                parts.append(data)
    except OSError as error:
        parts = [f"# {error}\n".encode()] if "parts" not in locals() else parts
    (folder / "ras_verbose.txt").write_bytes(b"".join(parts))


def _port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument(
        "--newer", default="", help="a libnccl.so.2 to preload for some of the runs"
    )
    chosen = parser.parse_args()
    names = set(filter(None, chosen.only.split(",")))
    todo = [s for s in SCENARIOS if not names or s.name in names]
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for said in pool.map(lambda s: record(s, chosen.out.absolute(), chosen.newer), todo):
            print(said, flush=True)


if __name__ == "__main__":
    main()
