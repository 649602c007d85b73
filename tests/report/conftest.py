"""Reports to draw: a job of any size in which the last rank stays behind, as the pipeline would find it."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from nccldoctor.correlate import connections, topology, trees
from nccldoctor.correlate.facts import facts
from nccldoctor.diagnose.verdict import decide
from nccldoctor.model.calls import Call
from nccldoctor.model.digest import Coverage, Unknown
from nccldoctor.model.event import Event
from nccldoctor.model.events import measured, nccl, torch, trouble
from nccldoctor.model.finding import Confidence, Finding, NotChecked, Role, Severity
from nccldoctor.model.job import (
    Communicator,
    Divergence,
    Evidence,
    Host,
    Job,
    Lane,
    Member,
    Origin,
    Process,
)
from nccldoctor.model.report import Report
from nccldoctor.model.source import Kind, Line, Source, Speaker

Maker = Callable[..., Report]
START = datetime(2026, 3, 12, 10, 11, 12, tzinfo=timezone.utc)
_SYSTEM = [
    ("", "CPU/0-0", None, None),
    ("+", "NIC/0-30", "PCI", 48.0),
    ("+    ", "NET/0-0", "NET", 50.0),
    *[
        pair
        for bus in (10, 20)
        for pair in (("+", f"GPU/0-{bus}", "PCI", 48.0), ("+    ", "NVS/0-0", "NVL", 370.8))
    ],
]


def make_job(size: int, per_host: int, word: str = "", times: bool = True) -> Job:
    """The job; `word` is put into every text that a log decides."""
    behind = size - 1
    hosts = [f"gpu-node-{h + 1:02}{word}" for h in range(size // per_host)]
    host = {r: hosts[r // per_host] for r in range(size)}
    processes = [
        Process(
            id=r,
            host=host[r],
            pid=1000 + r,
            rank=r,
            local_rank=r % per_host,
            device=r % per_host,
            bus_id=f"{r % per_host + 1}0",
            files=(f"logs/nccl_debug_{host[r]}_{1000 + r}.log",),
            last_stage="COMPLETE",
        )
        for r in range(size)
    ]
    call = Call("AllReduce", 4096, "float32", "sum")
    odd = Call("Broadcast", 4096 * 2, "float32", None, 0)
    lanes = [
        Lane(
            "0xab",
            r,
            Origin.CALLS,
            issued=3 if r == behind else 4,
            completed=3,
            last=odd if r == behind else call,
            recent=(call,) * 3 + ((odd,) if r == behind else (call,)),
            line=Line(f"logs/nccl_debug_{host[r]}_{1000 + r}.log", 90, f"AllReduce {word}"),
        )
        for r in range(size)
    ]
    world = Communicator(
        "0xab",
        f"world{word}",
        size,
        tuple(Member(r, r, r, "0x5", "COMPLETE") for r in range(size)),
        group="0",
        network="Socket",
        channels=4,
    )
    events = [pair for r in range(size) for pair in _events(r, size, per_host, host[r], word)]
    divergence = Divergence(
        "0xab", Origin.CALLS, 4, {r: odd if r == behind else call for r in range(size)}
    )
    job = Job(
        hosts=[
            Host(
                h,
                tuple(range(n * per_host, (n + 1) * per_host)),
                tuple(f"{g + 1}0" for g in range(per_host)),
                ("[0]mlx5_0:1/IB",),
                (f"10.0.{n // 250}.{n % 250 + 1}",),
            )
            for n, h in enumerate(hosts)
        ],
        processes=processes,
        communicators=[world],
        lanes=lanes,
        divergences=[divergence],
        events=events,
        evidence=[Evidence.NCCL_LOG, Evidence.INFO_LOG],
        world_size=size,
    )
    job.topology = topology.hosts(job)
    job.connections, job.rings = connections.lay(job, job.topology)
    job.trees = trees.edges(job)
    return job


def _events(
    rank: int, size: int, per_host: int, host: str, word: str
) -> list[tuple[Event, int | None]]:
    file = f"logs/nccl_debug_{host}_{1000 + rank}.log"

    def at(number: int, seconds: float | None = None) -> dict[str, object]:
        time = None if seconds is None else START + timedelta(seconds=seconds)
        return {
            "line": Line(file, number, f"{host}:{1000 + rank}:1 [0] NCCL INFO {word}"),
            "speaker": Speaker(host=host, pid=1000 + rank, time=time),
        }

    after = (rank + 1) % size
    far = rank // per_host != after // per_host
    events: list[Event] = [
        nccl.Version(version="2.28.9", cuda="13.0", **at(1)),
        nccl.NetworkChosen(network="Socket", **at(2)),
        nccl.EnvironmentSet(variable="NCCL_DEBUG", value="INFO", **at(3)),
        nccl.EnvironmentSet(variable="NCCL_DEBUG_FILE", value=f"/tmp/{host}/{rank}.log", **at(3)),
        nccl.EnvironmentSet(variable="NCCL_ALGO", value="Ring" if rank else f"Tree{word}", **at(4)),
        nccl.CommStart(comm="0x5", rank=rank, nranks=size, **at(5, rank * 0.01)),
        nccl.Edge(
            channel=0,
            source=rank,
            target=after,
            source_device="0",
            target_device="1",
            transport="NET" if far else "P2P",
            detail=f"Socket/0{word}" if far else "CUMEM/read",
            direction="send" if far else None,
            **at(40),
        ),
        nccl.TreeSeats(
            seats=f"[0] {rank + 1 if rank + 1 < size else -1}/-1/-1->{rank}->{rank - 1}", **at(41)
        ),
        trouble.Warned(message=f"something odd {word}", level="WARN", **at(50, 30)),
        torch.WatchdogTimeout(
            group_rank=rank,
            sequence=4,
            op="ALLREDUCE",
            timeout_ms=20000,
            ran_ms=20026,
            **at(60, 620),
        ),
    ]
    if rank % per_host == 0:
        events += [
            nccl.TopologyLine(indent=indent, node=node, link=link, bandwidth=speed, **at(20 + n))
            for n, (indent, node, link, speed) in enumerate(_SYSTEM)
        ]
    if rank == 0:
        events += [
            measured.BandwidthRow(
                op="all_reduce",
                size_bytes=1 << n,
                time_us=10.0,
                algorithm_gbytes_per_second=1.0,
                bus_gbytes_per_second=300 * (1 - 2.0 ** (-(n - 9) / 4)),
                ranks=size,
                **at(100 + n),
            )
            for n in range(10, 31, 2)
        ]
        events += [
            measured.BandwidthRow(
                op="SendRecv",
                size_bytes=1 << 26,
                time_us=335,
                algorithm_gbytes_per_second=1.0,
                bus_gbytes_per_second=20.0 if {a, b} == {1, 3} else 200.0,
                ranks=2,
                group="pair",
                members=(a, b),
                origin="probe",
                **at(200 + 8 * a + b),
            )
            for b in range(min(size, 8))
            for a in range(b)
        ]
        events.append(
            nccl.GraphFound(
                pattern=4,
                channels=12,
                intra_bandwidth=40.0,
                inter_bandwidth=24.0,
                intra_type="NVL",
                inter_type="PIX",
                **at(35),
            )
        )
    return [(event, rank) for event in events]


@pytest.fixture(scope="session")
def make_report() -> Maker:
    """make_report(size=8, per_host=2, word="") → Report."""

    def make(size: int = 8, per_host: int = 2, word: str = "") -> Report:
        job = make_job(size, per_host, word)
        behind = size - 1
        host = job.hosts[-1].name
        file = f"logs/nccl_debug_{host}_{1000 + behind}.log"
        findings = (
            Finding(
                "HANG01",
                "rank-behind",
                Severity.ERROR,
                Confidence.HIGH,
                Role.CAUSE,
                f"Rank {behind} on {host} stopped after AllReduce #3; {size - 1} ranks wait in AllReduce #4 of world{word}",
                f"A collective ends only when every rank has called it.\n\nRank {behind} never called the fourth. {word}",
                (f"py-spy dump --pid {1000 + behind}  # on {host}", "nccldoctor run train.py"),
                (behind,),
                (host,),
                tuple(
                    Line(
                        file,
                        n,
                        f"{host}:{1000 + behind}:1 [1] NCCL INFO AllReduce: opCount {n} {word}",
                    )
                    for n in (88, 89)
                ),
                ("HANG04",),
            ),
            Finding(
                "HANG04",
                "collective-timeout",
                Severity.ERROR,
                Confidence.HIGH,
                Role.CONSEQUENCE,
                f"{size - 1} ranks timed out in ALLREDUCE #4 after 20 s{word}",
                "The watchdog waits for the collective and reports the ranks that wait.",
                ("raise the timeout only if the step is long",),
                tuple(range(size - 1)),
                tuple(h.name for h in job.hosts),
                (
                    Line(
                        "rank0.out",
                        7,
                        f"[rank0]: Watchdog caught collective operation timeout {word}",
                    ),
                ),
            ),
            Finding(
                "ENV03",
                "variable-differs-between-ranks",
                Severity.WARNING,
                Confidence.HIGH,
                Role.INDEPENDENT,
                f"NCCL_ALGO differs: rank 0 has Tree{word}, the others Ring",
                "All ranks must choose alike.",
                ("unset NCCL_ALGO",),
                (0,),
                (job.hosts[0].name,),
                (Line(file, 4, f"NCCL_ALGO set by environment to Tree{word}"),),
            ),
        )
        return Report(
            verdict=decide(findings, [job]),
            findings=findings,
            not_checked=(
                NotChecked(
                    "HW01", "no kernel in the evidence", "dmesg -T > dmesg.txt on each host"
                ),
                NotChecked("HW02", "no host-state in the evidence", "nvidia-smi -q > smi.txt"),
            ),
            jobs=(job,),
            facts=(facts(job),),
            coverage=Coverage(
                9000, 8000, 7990, (Unknown("strange #", 10, Line(file, 55, f"strange 7 {word}")),)
            ),
            inputs=tuple(
                Source(f, Kind.LOG, 120_000, 1000, "") for p in job.processes for f in p.files
            ),
        )

    return make
